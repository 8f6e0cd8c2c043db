// Package view is how the outside reads: tasks, lists, transcripts, receipts. It reads the journal with a cursor and
// keeps no state of its own; only live text, which nothing needs, passes by memory.
package view

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// View reads. It is safe for concurrent use.
type View struct {
	journal *journal.Journal
	live    *Live
	now     func() time.Time
	queue   func(task.ID) int
}

// New makes a view of a journal; live is where loops publish their text, and queue tells a queued task's place, from 1.
func New(j *journal.Journal, live *Live, queue func(task.ID) int, now func() time.Time) *View {
	return &View{journal: j, live: live, now: now, queue: queue}
}

// Task is a task with all that follows from its other rows.
type Task struct {
	task.Task
	TeamName string
	Usage    task.Usage
	WallTime time.Duration
	Activity string // what it does now, one line
	LastSeq  task.Seq
	Place    int      // in the queue, from 1; 0: it does not wait for a slot
	Unread   int      // messages that it has not taken yet, without notices
	Dropped  []string // tools of its definition that it is not granted
}

// Task shows one task; TaskNotFound when there is none.
func (v *View) Task(ctx context.Context, id task.ID) (Task, error) {
	row, err := v.journal.Task(ctx, id)
	if err != nil {
		return Task{}, err
	}
	team, err := v.journal.Team(ctx, row.Value.Team)
	if err != nil {
		return Task{}, err
	}
	return v.dress(ctx, row.Value, team)
}

func (v *View) dress(ctx context.Context, t task.Task, in roster.Team) (Task, error) {
	used, err := v.journal.Usage(ctx, t.Team, t.ID)
	if err != nil {
		return Task{}, err
	}
	newest, last, err := v.newest(ctx, t)
	if err != nil {
		return Task{}, err
	}
	out := Task{
		Task: t, TeamName: in.Name, Usage: used, WallTime: t.WallTime(v.now()), Activity: activity(t, newest), LastSeq: last,
	}
	if err := v.waiting(ctx, &out); err != nil {
		return Task{}, err
	}
	spec, err := v.journal.Spec(ctx, t.Team, t.ID)
	out.Dropped = spec.Dropped
	if errdefs.Is(err, errdefs.RecordCorrupt) {
		err = nil // in quarantine, as the status says: the task is shown without it
	}
	switch {
	case t.State == task.Queued && out.Place == 0 && t.Parent.Kind() == task.Group:
		out.Activity = "waits for its turn in " + string(t.Parent)
	case err == nil && spec.Group != nil && t.State != task.Queued && !t.State.Terminal():
		out.Activity, err = v.groupActivity(ctx, t, *spec.Group)
	}
	return out, err
}

// waiting adds what waits for the task, and what it waits for. An idle teammate that has work waits for a slot.
func (v *View) waiting(ctx context.Context, t *Task) error {
	if t.Kind.IsAgent() {
		boxes := (team.Mail{Task: t.Task}).Boxes()
		if t.State.Terminal() {
			boxes = []task.ID{t.ID} // the leader inbox is a lead's while it lives
		}
		for _, box := range boxes {
			unread, err := v.journal.Inbox(ctx, t.Team, box)
			if err != nil && !errdefs.Is(err, errdefs.RecordCorrupt) {
				return err
			}
			t.Unread += int(unread.Value.Messages)
		}
	}
	if t.State == task.Queued {
		t.Place = v.queue(t.ID)
	}
	if t.State != task.Idle {
		return nil
	}
	rests, err := v.rests(ctx, t.Task)
	if err == nil && !rests {
		t.Activity, t.Place = waitsForSlot, v.queue(t.ID)
	}
	return err
}

// rests tells whether an idle teammate has nothing to wake for.
func (v *View) rests(ctx context.Context, t task.Task) (bool, error) {
	_, err := v.journal.Live(ctx, t.Team, t.ID)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return true, nil
	}
	return false, err
}

// lookBack is how many entries are looked at for the newest that is no change of state.
const lookBack = 8

// newest gives the newest entry that says what a task does, and the last position.
func (v *View) newest(ctx context.Context, t task.Task) (task.Body, task.Seq, error) {
	last, err := v.journal.LastEntries(ctx, t.Team, t.ID, 1)
	if err != nil || len(last) == 0 {
		return nil, 0, err
	}
	seq := last[0].Seq
	if _, ok := last[0].Body.(*task.StateChange); ok {
		if last, err = v.journal.LastEntries(ctx, t.Team, t.ID, lookBack); err != nil {
			return nil, 0, err
		}
	}
	for _, e := range slices.Backward(last) {
		if _, ok := e.Body.(*task.StateChange); !ok {
			return e.Body, seq, nil
		}
	}
	return nil, seq, nil
}

// waitsForSlot is the activity of who has work and no slot.
const waitsForSlot = "waits for a slot"

// activity follows from the state and the newest entry.
func activity(t task.Task, newest task.Body) string {
	started, calls := newest.(*task.CallStarted)
	switch {
	case t.State == task.Queued:
		return waitsForSlot
	case t.State == task.Idle:
		return "idle"
	case t.State.Terminal():
		return ""
	case t.State == task.Waiting && calls:
		return "waits: " + started.Label
	case t.State == task.Waiting:
		return "waits for the model provider"
	case calls:
		return started.Label
	case t.Kind == task.Shell:
		return "runs " + t.Description
	case t.Kind == task.Group:
		return "follows its children"
	}
	if answer, ok := newest.(*task.Assistant); ok && len(answer.Calls) > 0 {
		return "settles " + answer.Calls[0].Name
	}
	if t.State == task.Stopping {
		return "is stopping"
	}
	return "asks the model"
}

// Filter chooses tasks; zero fields choose all.
type Filter struct {
	Team      string // name
	Kind      task.Kind
	State     task.State
	Parent    task.ID
	Living    bool // only those that are not terminal
	PageSize  int  // 1 to MaxPage; 0: DefaultPage
	PageToken string
}

// Sizes of a page of a list.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// List gives one page of tasks in the order of their teams and creations, and the token of the next.
func (v *View) List(ctx context.Context, f Filter) ([]Task, string, error) {
	size, from, err := parsePage(f.PageSize, f.PageToken)
	if err != nil {
		return nil, "", err
	}
	f.PageSize = size
	teams, err := v.teams(ctx, f.Team)
	if err != nil {
		return nil, "", err
	}
	var tasks []Task
	for _, team := range teams {
		number := teamNumber(team.ID)
		if number < from.team {
			continue
		}
		after := journal.Rev(0)
		if number == from.team {
			after = from.pos
		}
		last, full, err := v.listTeam(ctx, f, team, after, &tasks)
		if err != nil {
			return nil, "", err
		}
		if full {
			return tasks, token{number, last}.String(), nil
		}
	}
	return tasks, "", nil
}

// listTeam adds a team's tasks after a position until the page is full.
func (v *View) listTeam(
	ctx context.Context, f Filter, team roster.Team, after journal.Rev, tasks *[]Task,
) (last journal.Rev, full bool, err error) {
	rows, err := v.candidates(ctx, f, team, after)
	if err != nil {
		return 0, false, err
	}
	for created, err := range rows {
		if err != nil {
			return 0, false, err
		}
		last = created.Rev
		row, err := v.journal.Task(ctx, created.Value)
		if errdefs.Is(err, errdefs.RecordCorrupt) || errdefs.Is(err, errdefs.TaskNotFound) {
			continue // in quarantine, as the status says: the rest is shown
		}
		if err != nil {
			return 0, false, err
		}
		if !f.matches(row.Value) {
			continue
		}
		if len(*tasks) == f.PageSize {
			return after, true, nil
		}
		dressed, err := v.dress(ctx, row.Value, team)
		if err != nil {
			return 0, false, err
		}
		*tasks, after = append(*tasks, dressed), last
	}
	return after, false, nil
}

func (f Filter) matches(t task.Task) bool {
	return (f.Kind == 0 || f.Kind == t.Kind) && (f.State == 0 || f.State == t.State) &&
		(f.Parent == "" || f.Parent == t.Parent) && (!f.Living || !t.State.Terminal())
}

// candidates are a team's tasks after a position: children or living ones alone when only they are asked for. The
// position of such a task is its number, which orders like its creation.
func (v *View) candidates(
	ctx context.Context, f Filter, team roster.Team, after journal.Rev,
) (iter.Seq2[journal.Row[task.ID], error], error) {
	var ids iter.Seq2[task.ID, error]
	switch {
	case f.Parent != "":
		owner, err := v.journal.TeamOf(ctx, f.Parent)
		if errdefs.Is(err, errdefs.TaskNotFound) || err == nil && owner != team.ID {
			return func(func(journal.Row[task.ID], error) bool) {}, nil
		}
		if err != nil {
			return nil, err
		}
		ids = v.journal.Children(ctx, team.ID, f.Parent)
	case f.Living, f.State != 0 && !f.State.Terminal():
		ids = v.journal.Living(ctx, team.ID)
	default:
		return v.journal.Created(ctx, team.ID, after), nil
	}
	return numbered(ids, after)
}

// numbered puts ids in the order of their numbers and leaves out those up to a position.
func numbered(ids iter.Seq2[task.ID, error], after journal.Rev) (iter.Seq2[journal.Row[task.ID], error], error) {
	var rows []journal.Row[task.ID]
	for id, err := range ids {
		if err != nil {
			return nil, err
		}
		if n := journal.Rev(id.Number()); n > after {
			rows = append(rows, journal.Row[task.ID]{Value: id, Rev: n})
		}
	}
	slices.SortFunc(rows, func(a, b journal.Row[task.ID]) int { return cmp.Compare(a.Rev, b.Rev) })
	return func(yield func(journal.Row[task.ID], error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}, nil
}

// teams gives one team by name, or all by number.
func (v *View) teams(ctx context.Context, name string) ([]roster.Team, error) {
	if name != "" {
		team, err := v.journal.TeamByName(ctx, name)
		return []roster.Team{team}, err
	}
	teams, err := v.journal.Teams(ctx)
	slices.SortFunc(teams, func(a, b roster.Team) int { return cmp.Compare(teamNumber(a.ID), teamNumber(b.ID)) })
	return teams, err
}

func teamNumber(id string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(id, "t-"), 10, 64) // ours: always a number
	return n
}

// token is where a page ended.
type token struct {
	team uint64
	pos  journal.Rev
}

// String is opaque to clients.
func (t token) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%d", t.team, t.pos))
}

func parseToken(s string) (token, error) {
	if s == "" {
		return token{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	team, pos, found := strings.Cut(string(raw), ":")
	number, teamErr := strconv.ParseUint(team, 10, 64)
	rev, posErr := strconv.ParseUint(pos, 10, 64)
	if !found || errors.Join(err, teamErr, posErr) != nil {
		return token{}, errdefs.BadField("page_token",
			"%q is not a token of this daemon; leave it empty for the first page", s)
	}
	return token{number, journal.Rev(rev)}, nil
}
