package journal

import (
	"context"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// remakeMailbox writes what was taken of a mailbox anew where damage has taken the record. It follows from the transcripts of
// those who read the mailbox, and from what is kept of how messages ended otherwise. What was in neither, such as a notice that
// a client has acknowledged, is told once more.
func (j *Journal) remakeMailbox(ctx context.Context, team string, box task.ID) error {
	read, err := j.readIn(ctx, team, box)
	if err != nil {
		return err
	}
	log := logOf(box)
	var mail []mailbox.Message
	gone := map[uint64]bool{}
	for m, err := range j.Mail(ctx, team, log, 0) {
		if err != nil {
			return err
		}
		mail = append(mail, m)
		if countedAt(log, m) != box || read.messages[m.ID] || m.Kind == task.Ended && read.ends[m.About] {
			gone[m.Pos] = true
			continue
		}
		sent, err := j.SentTo(ctx, team, m.ID, box)
		if err != nil && !isGone(err) {
			return err
		}
		gone[m.Pos] = sent.Value.Fate != 0
	}
	_, taken := mailbox.Remove(mailbox.Box{}, mail, func(m mailbox.Message) bool { return gone[m.Pos] })
	b := j.Batch(team)
	b.PutMailbox(box, Row[mailbox.Box]{Rev: store.Damaged}, taken)
	return j.remade(ctx, b, mailboxKey(box))
}

// told is what a transcript tells of mail.
type told struct {
	messages map[string]bool  // that were taken
	ends     map[task.ID]bool // of tasks, that answers have told
}

// readIn gathers what those who read a mailbox have taken of it.
func (j *Journal) readIn(ctx context.Context, team string, box task.ID) (told, error) {
	read := told{map[string]bool{}, map[task.ID]bool{}}
	readers := []task.ID{box}
	if box == mailbox.LeaderBox {
		for lead, err := range j.Leads(ctx, team) {
			if err != nil {
				return read, err
			}
			readers = append(readers, lead.ID)
		}
	}
	for _, id := range readers {
		for e, err := range j.Entries(ctx, team, id, 0) {
			if err != nil {
				return read, err
			}
			switch body := e.Body.(type) {
			case *task.Input:
				read.messages[body.MessageID] = true
			case *task.ToolResult:
				for _, id := range body.Ends {
					read.ends[id] = true
				}
			}
		}
	}
	return read, nil
}

// remakeMember writes anew who has a name where damage has taken the record: the last teammate that got it. Whether it was
// dismissed is lost; one that somebody has stopped counts as that, for a dismissed one must not come back.
func (j *Journal) remakeMember(ctx context.Context, team, name string) error {
	var last roster.Member
	for created, err := range j.Created(ctx, team, 0) {
		if err != nil {
			return err
		}
		if created.Value.Kind() != task.Teammate {
			continue
		}
		row, err := j.Task(ctx, created.Value)
		if err != nil && !IsLost(err) {
			return err
		}
		if t := row.Value; err == nil && strings.EqualFold(t.Name, name) {
			last = roster.Member{Name: t.Name, TaskID: t.ID, Dismissed: t.Reason == task.StoppedByClient}
		}
	}
	b := j.Batch(team)
	b.guard(memberKey(name), store.Damaged)
	if last.TaskID == "" { // its task is lost, too: the name is free
		b.raw(store.Delete, memberKey(name), nil)
	} else {
		b.op(store.Put, memberKey(name), memberRow(last))
	}
	return j.remade(ctx, b, memberKey(name))
}

// remade commits a record that was made anew, unless somebody else was faster.
func (j *Journal) remade(ctx context.Context, b *Batch, record string) error {
	err := j.Commit(ctx, b)
	if errdefs.Is(err, errdefs.Conflict) {
		return nil
	}
	if err == nil {
		j.log.Error("a record was damaged and is made anew", "team", b.team, "record", record)
	}
	return err
}
