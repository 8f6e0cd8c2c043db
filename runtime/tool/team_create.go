package tool

import (
	"context"
	"fmt"
)

type teamCreateArgs struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

func teamCreateTool() Tool {
	return builtin[teamCreateArgs]{
		spec: Spec{
			Name: TeamCreateName,
			Description: "Give your own team a name and say what it is for, before you start teammates: it is refused while any " +
				"live. Teammates are known as NAME@TEAM outside the team. You need no call of this to start them.",
			Parameters: schema(`
				"name":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$","description":"letters, digits, _ and -"},
				"description":{"type":"string","description":"what the team is for, at most 1 KiB"}`, "name"),
			Idempotent: true,
		},
		run: teamCreate,
	}
}

func teamCreate(ctx context.Context, call Call, args teamCreateArgs) (Answer, error) {
	if args.Name == "" {
		return Answer{}, invalid("name", "must not be empty")
	}
	if call.Scope.Crew == nil {
		return Answer{}, &Error{Reason: NotGranted, Subject: TeamCreateName, Message: "only the lead names its team"}
	}
	if err := call.Scope.Crew.NameTeam(ctx, call, args.Name, args.Description); err != nil {
		return Answer{}, err
	}
	return Answer{Text: fmt.Sprintf("your team is named %s now", args.Name)}, nil
}
