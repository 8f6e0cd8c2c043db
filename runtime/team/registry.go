// Package team is how agents are more than one: who is meant by a name, what wakes a teammate, and what a commit writes so
// that mail reaches it. It commits nothing itself: what it decides are operations in the batch of who asks, so that a
// message, the wake and the sender's own words land together. It runs no turn, and all its words are one Protocol.
package team

import (
	"context"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/nearest"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Everyone is the address of all living teammates but the sender.
const Everyone = "*"

// Registry finds who is meant by an address.
type Registry struct{ Journal *journal.Journal }

// Recipient is who gets a message.
type Recipient struct {
	Box    task.ID // its mailbox
	Name   string  // as receipts call it
	Task   journal.Row[task.Task]
	Member journal.Row[roster.Member] // of a teammate
}

// Key is what its receipts are kept under.
func (r Recipient) Key() task.ID {
	if r.Name == mailbox.User {
		return mailbox.UserBox
	}
	return r.Box
}

// hasTask tells whether there is an agent behind the address, living or ended: the leader inbox may have none.
func (r Recipient) hasTask() bool { return r.Task.Value.ID != "" }

// Find finds the recipient of an address within a team: a teammate's name, task.LeadName, mailbox.User or a task's id (M1).
// RecipientNotFound names those that come nearest; NotARecipient is for tasks that take no mail.
func (r Registry) Find(ctx context.Context, team, to string) (Recipient, error) {
	if kind, _, isID := task.ParseID(task.ID(to)); isID {
		return r.byID(ctx, team, task.ID(to), kind)
	}
	if strings.EqualFold(to, mailbox.User) {
		return Recipient{Box: mailbox.LeaderBox, Name: mailbox.User}, nil
	}
	lead := strings.EqualFold(to, task.LeadName)
	member, err := r.Journal.Member(ctx, team, to)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound) && lead:
		return Recipient{Box: mailbox.LeaderBox, Name: task.LeadName}, nil
	case errdefs.Is(err, errdefs.RecordNotFound):
		return Recipient{}, r.unknown(ctx, team, to)
	case err != nil:
		return Recipient{}, err
	}
	return r.member(ctx, member)
}

// member is the recipient that has a name.
func (r Registry) member(ctx context.Context, m journal.Row[roster.Member]) (Recipient, error) {
	row, err := r.Journal.Task(ctx, m.Value.TaskID)
	switch {
	case journal.IsLost(err) && m.Value.Name == task.LeadName: // the inbox works on without it (D7)
		return Recipient{Box: mailbox.LeaderBox, Name: task.LeadName, Member: m}, nil
	case journal.IsLost(err):
		return Recipient{}, errdefs.New(errdefs.FailedPrecondition, errdefs.NotRevivable, m.Value.Name,
			"the record of %s is damaged; spawn another teammate of that name", m.Value.Name)
	case err != nil:
		return Recipient{}, err
	}
	found := Recipient{Box: row.Value.ID, Name: m.Value.Name, Task: row, Member: m}
	if row.Value.IsLead() {
		found.Box = mailbox.LeaderBox
	}
	return found, nil
}

// byID is the recipient with a task id. A teammate is the same by its id as by its name, while it has that name.
func (r Registry) byID(ctx context.Context, team string, id task.ID, kind task.Kind) (Recipient, error) {
	row, err := r.Journal.Task(ctx, id)
	switch {
	case errdefs.Is(err, errdefs.TaskNotFound), err == nil && row.Value.Team != team:
		return Recipient{}, r.unknown(ctx, team, string(id))
	case err != nil:
		return Recipient{}, err
	case !kind.IsAgent():
		return Recipient{}, errdefs.New(errdefs.FailedPrecondition, errdefs.NotARecipient, string(id),
			"task %s is no agent and takes no mail; the agents of a group do", id)
	case kind == task.Subagent:
		return Recipient{Box: id, Name: string(id), Task: row}, nil
	}
	member, err := r.Journal.Member(ctx, team, row.Value.Name)
	if err != nil {
		return Recipient{}, err
	}
	if member.Value.TaskID != id {
		return Recipient{}, errdefs.New(errdefs.FailedPrecondition, errdefs.NotRevivable, string(id),
			"task %s has ended, and the name %s is now task %s's", id, row.Value.Name, member.Value.TaskID)
	}
	return r.member(ctx, member)
}

// unknown refuses an address, naming those that come nearest.
func (r Registry) unknown(ctx context.Context, team, to string) error {
	names := []string{task.LeadName, mailbox.User}
	for m, err := range r.Journal.Members(ctx, team) {
		if err != nil {
			return err
		}
		if !m.Dismissed && m.Name != task.LeadName {
			names = append(names, m.Name)
		}
	}
	near := nearest.Names(to, names)
	hint := "the nearest names are " + strings.Join(near[:min(len(near), maxNamed)], ", ")
	return errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, to, "nobody is called %q here; %s", to, hint)
}

// maxNamed bounds the names in an error.
const maxNamed = 5

// Lead finds the task of a team's lead, living or ended; false when it never had one.
func (r Registry) Lead(ctx context.Context, team string) (journal.Row[task.Task], bool, error) {
	found, err := r.Find(ctx, team, task.LeadName)
	return found.Task, found.hasTask(), err
}

// LeadLives tells whether a team has a living lead.
func (r Registry) LeadLives(ctx context.Context, team string) (bool, error) {
	lead, found, err := r.Lead(ctx, team)
	return found && !lead.Value.State.Terminal(), err
}
