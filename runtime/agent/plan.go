package agent

import (
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// plans tells whether the agent may only read, until its plan is approved. It follows from what the agent was given and its
// transcript, so it is the same after a restart.
func (a *Agent) plans() bool { return a.Spec.PlanApproval && !a.History.approved }

// offered are the tools that the model is told of.
func (a *Agent) offered() []model.Tool {
	if a.plans() {
		return a.reading
	}
	return a.specs
}

// needsNoPlan tells whether a tool may be used before a plan is approved.
func needsNoPlan(s tool.Spec) bool {
	return s.ReadOnly || s.Name == tool.SendMessageName || s.Name == tool.SubmitPlanName
}

// beforePlan is the part of a set of tools that needs no plan.
func beforePlan(set tool.Set) tool.Set {
	var names []string
	for _, s := range set.Specs() {
		if needsNoPlan(s) {
			names = append(names, s.Name)
		}
	}
	return set.Filter(names)
}

// planRequired answers a call that waits for the approval of a plan.
func (a *Agent) planRequired(name string) tool.Answer {
	return tool.Fail(tool.Error{
		Reason: tool.PlanRequired, Subject: name, Allowed: beforePlan(a.Tools.Filter(a.Task.Grant.Tools)).Names(),
		Message: "you may only read until your plan is approved; submit it with submit_plan, and end your turn",
	})
}

// agreedToEnd is the end of a teammate that has agreed to shut down: it asks the model no more, and leaves its mail to its
// next life (T5). Nil when it has not.
func agreedToEnd(t task.Task) *task.Finish {
	if t.Stop == nil || t.Stop.Reason != task.Shutdown || t.Stop.State != task.Completed {
		return nil
	}
	finish := t.Stop.Finish()
	return &finish
}
