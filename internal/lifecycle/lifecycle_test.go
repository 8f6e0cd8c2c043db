package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/agentd-dev/agentd/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary notes what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) is(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("happened %q, want %q", d.lines, want)
	}
}

// part notes its start and, `lasts` after its ctx has ended, its stop.
func part(d *diary, name string, lasts time.Duration) lifecycle.Part {
	return lifecycle.Part{Name: name, StopBudget: time.Minute, Run: func(ctx context.Context) error {
		d.note("+" + name)
		<-ctx.Done()
		<-time.After(lasts)
		d.note("-" + name)
		return ctx.Err()
	}}
}

// fails returns err after a second.
func fails(name string, err error) lifecycle.Part {
	return lifecycle.Part{Name: name, StopBudget: time.Minute, Run: func(context.Context) error {
		<-time.After(time.Second)
		return err
	}}
}

// ready makes the part tell that it works, after a while in which nothing behind it may start.
func ready(d *diary, p lifecycle.Part, after time.Duration) lifecycle.Part {
	works := make(chan struct{})
	run := p.Run
	p.Ready = works
	p.Run = func(ctx context.Context) error {
		<-time.After(after)
		d.note("ready " + p.Name)
		close(works)
		return run(ctx)
	}
	return p
}

var silent = slog.New(slog.DiscardHandler)

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := lifecycle.Run(ctx, silent,
			ready(&d, part(&d, "a", 0), time.Second),
			ready(&d, part(&d, "b", 3*time.Second), time.Second),
			ready(&d, part(&d, "c", 5*time.Second), time.Second),
		)
		if err != nil {
			t.Errorf("an ordered stop gives %v", err)
		}
		d.is(t, "ready a", "+a", "ready b", "+b", "ready c", "+c", "-c", "-b", "-a")
	})
}

func TestReturnOfOnePartStopsTheOthers(t *testing.T) {
	broken := errors.New("broken")
	for name, want := range map[string]error{"with an error": broken, "without": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				err := lifecycle.Run(t.Context(), silent, ready(&d, part(&d, "a", 0), 0), fails("b", want))
				if !errors.Is(err, want) || (want != nil && !strings.HasPrefix(err.Error(), "b: ")) {
					t.Errorf("got %v, want %v", err, want)
				}
				d.is(t, "ready a", "+a", "-a")
			})
		})
	}
}

func TestFailureBeforeReadyStartsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		never := fails("never", errors.New("no disk"))
		never.Ready = make(chan struct{})
		err := lifecycle.Run(t.Context(), silent, ready(&d, part(&d, "a", 0), 0), never, part(&d, "c", 0))
		if err == nil || err.Error() != "never: no disk" {
			t.Errorf("got %v", err)
		}
		d.is(t, "ready a", "+a", "-a")
	})
}

func TestEndedContextStartsNothing(t *testing.T) {
	var d diary
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lifecycle.Run(ctx, silent, part(&d, "a", 0)); err != nil {
		t.Error(err)
	}
	d.is(t)
}

func TestFirstErrorWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := lifecycle.Part{Name: "late", StopBudget: time.Minute, Run: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("while stopping")
		}}
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		err := lifecycle.Run(t.Context(), log, late, fails("early", errors.New("the cause")))
		if err == nil || err.Error() != "early: the cause" {
			t.Errorf("got %v", err)
		}
		if !strings.Contains(text.String(), "ended by itself, and the others are stopped\" part=early") ||
			!strings.Contains(text.String(), "error=\"late: while stopping\"") || strings.Count(text.String(), "by itself") != 1 {
			t.Errorf("the log does not tell who ended first, or what failed later: %s", text.String())
		}
		err = lifecycle.Run(t.Context(), silent, late, fails("early", nil))
		if err == nil || err.Error() != "late: while stopping" {
			t.Errorf("an error while stopping is hidden: %v", err)
		}
	})
}

func TestCanceledOfAPartThatWasNotStoppedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := lifecycle.Run(t.Context(), silent, fails("a", context.Canceled))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		wild := lifecycle.Part{Name: "wild", StopBudget: time.Minute, Run: func(context.Context) error { panic("oh") }}
		err := lifecycle.Run(t.Context(), silent, ready(&d, part(&d, "a", 0), 0), wild)
		if err == nil || !strings.HasPrefix(err.Error(), "wild: panic: oh\n") {
			t.Errorf("got %v", err)
		} else if !strings.Contains(err.Error(), "lifecycle_test.go") {
			t.Errorf("the stack is missing: %v", err)
		}
		d.is(t, "ready a", "+a", "-a")
	})
}

func TestOverduePartIsLoggedAndLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		var text bytes.Buffer
		release := make(chan struct{})
		slow := lifecycle.Part{Name: "slow", StopBudget: 10 * time.Second, Run: func(context.Context) error {
			<-release
			return errors.New("too late to tell")
		}}
		began := time.Now()
		err := lifecycle.Run(t.Context(), slog.New(slog.NewTextHandler(&text, nil)),
			ready(&d, part(&d, "a", 2*time.Second), 0), slow, fails("end", nil))
		if err != nil {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 13*time.Second {
			t.Errorf("took %v, want 1 s to the end, 10 s of budget and 2 s of the part before", took)
		}
		if !strings.Contains(text.String(), "part=slow budget=10s") {
			t.Errorf("the log does not tell: %s", text.String())
		}
		d.is(t, "ready a", "+a", "-a")
		close(release)
	})
}
