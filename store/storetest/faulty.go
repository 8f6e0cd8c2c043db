package storetest

import (
	"context"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// Mode is the way in which a commit fails.
type Mode uint8

// The modes.
const (
	Refused Mode = iota + 1 // nothing is applied and the answer says so: StoreStalled
	Landed                  // the answer is OutcomeUnknown, and the batch was applied if its guards allowed
	Lost                    // the answer is OutcomeUnknown, and nothing was applied
)

// Plan says which commits fail. The zero Plan lets all succeed.
type Plan struct {
	From  int  // the first that fails, counted from 1; 0 is none
	Count int  // how many fail, one after the other; 0 is all until Heal
	Mode  Mode // how they fail
}

// Faulty is a store whose commits fail by a plan. Nothing but Commit counts or fails. It is safe for concurrent use.
type Faulty struct {
	store.Store // what is wrapped

	mu      sync.Mutex // guards what follows
	plan    Plan
	commits int
	failed  int
}

// Wrap wraps s. Closing the Faulty closes s.
func Wrap(s store.Store, p Plan) *Faulty { return &Faulty{Store: s, plan: p} }

// Commits is the number of commits so far, those that failed included. A walk runs once without a fault, and then once
// for each n up to this number with From n.
func (f *Faulty) Commits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits
}

// Failed is the number of commits that the plan has let fail. A walk that sees 0 has proved nothing.
func (f *Faulty) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Stall makes every commit from now on fail as Refused, until Heal.
func (f *Faulty) Stall() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = Plan{From: f.commits + 1, Mode: Refused}
}

// Heal lets all commits from now on succeed.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = Plan{}
}

// Commit commits by the plan.
func (f *Faulty) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	switch f.next() {
	case Refused:
		return store.Committed{}, errdefs.New(errdefs.Unavailable, errdefs.StoreStalled, "",
			"the store cannot write its file (made to fail)")
	case Landed:
		_, _ = f.Store.Commit(ctx, b) // the caller is not to know
		return store.Committed{}, outcomeUnknown()
	case Lost:
		return store.Committed{}, outcomeUnknown()
	}
	return f.Store.Commit(ctx, b)
}

func outcomeUnknown() error {
	return errdefs.New(errdefs.Unavailable, errdefs.OutcomeUnknown, "",
		"the commit failed when it may already have landed (made to fail)")
}

// next counts a commit and gives its mode, 0 when it is to succeed.
func (f *Faulty) next() Mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits++
	p := f.plan
	if p.From == 0 || f.commits < p.From || p.Count > 0 && f.commits >= p.From+p.Count {
		return 0
	}
	f.failed++
	return p.Mode
}
