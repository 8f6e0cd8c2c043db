package tool

import "context"

type submitPlanArgs struct {
	Plan string `json:"plan"`
}

func submitPlanTool() Tool {
	return builtin[submitPlanArgs]{
		spec: Spec{
			Name: SubmitPlanName,
			Description: "Submit your plan for approval: what you will change and where, in which order, how you will check it, what " +
				"could go wrong. Until a plan of yours is approved you may only read. End your turn after it: the answer comes as a " +
				"message. A plan that you submit later replaces this one.",
			Parameters: schema(`
				"plan":{"type":"string","minLength":1,"description":"the whole plan, at most 64 KiB; who reads it knows nothing of your work so far"}`,
				"plan"),
			Idempotent: true,
		},
		run: submitPlan,
	}
}

func submitPlan(ctx context.Context, call Call, args submitPlanArgs) (Answer, error) {
	if args.Plan == "" {
		return Answer{}, invalid("plan", "must not be empty")
	}
	if call.Scope.Crew == nil {
		return Answer{}, noCrew(SubmitPlanName)
	}
	id, err := call.Scope.Crew.SubmitPlan(ctx, call, args.Plan)
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: compact(planAnswer{ControlID: id, Note: "submitted; end your turn now, the answer comes as a message"})}, nil
}

type planAnswer struct {
	ControlID string `json:"control_id"`
	Note      string `json:"note"`
}
