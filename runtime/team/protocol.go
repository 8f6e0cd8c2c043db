package team

import "github.com/agentd-dev/agentd/runtime/task"

// Protocol is all the words of a team. A hook that is left out falls back to the plainest pass-through, as Plain has it.
type Protocol struct {
	// Format is a message as its recipient reads it. It must leave no doubt who says it and where it ends (M8).
	Format func(in task.Input) string
	// Prompt is what a teammate's system prompt says of its place in the team.
	Prompt func(who Identity) string
}

// Identity is who a teammate is.
type Identity struct {
	Name         string // of the lead task.LeadName
	Agent        string // definition
	TaskID       task.ID
	Team         string // name
	Lead         bool
	PlanApproval bool // it may only read until its plan is approved
}

// Plain passes everything through as it is.
func Plain() Protocol {
	return Protocol{
		Format: func(in task.Input) string { return in.Text },
		Prompt: func(who Identity) string { return "You are " + who.Name + " of the team " + who.Team + "." },
	}
}

// Whole is the protocol with the plainest hooks where it has none.
func (p Protocol) Whole() Protocol {
	plain := Plain()
	if p.Format == nil {
		p.Format = plain.Format
	}
	if p.Prompt == nil {
		p.Prompt = plain.Prompt
	}
	return p
}
