package server

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// fullSpec asks for everything that one agent can be given.
func fullSpec() (*agentdv1.AgentSpec, task.AgentSpec) {
	w := &agentdv1.AgentSpec{
		Agent: "coder", Prompt: "p", Model: "m", Isolation: agentdv1.Isolation_ISOLATION_WORKTREE,
		Inputs: []*agentdv1.AgentInput{
			{Name: "a", Source: &agentdv1.AgentInput_Text{Text: "t"}}, {Name: "b", Source: &agentdv1.AgentInput_TaskId{TaskId: "sub-1"}},
		},
		Budget: &agentdv1.Budget{
			MaxSteps: 1, Steps: 2, Tokens: 3, WallTime: durationpb.New(4), Turns: 5, ToolCalls: 6, CostUsd: 0.25,
		},
		Grant: &agentdv1.GrantRequest{
			Tools: []string{"ls"}, ReadableRoots: []string{"/r"}, WritableRoots: []string{"/w"},
			Network: proto.Bool(false), Depth: proto.Int32(0),
		},
		Acceptance:   []*agentdv1.AcceptanceCommand{{Command: "make", Timeout: durationpb.New(time.Minute)}, {Command: "true"}},
		ResultSchema: `{"type":"object"}`,
	}
	network, depth := false, 0
	return w, task.AgentSpec{
		Agent: "coder", Prompt: "p", Model: "m", Worktree: true, Schema: `{"type":"object"}`,
		Inputs: []task.NamedText{{Name: "a", Text: "t"}, {Name: "b", TaskID: "sub-1"}},
		Budget: task.Budget{
			MaxSteps: 1, Steps: 2, Tokens: 3, WallTime: 4, Turns: 5, ToolCalls: 6, Cost: task.Dollar / 4,
		},
		Grant: grant.Request{
			Tools: []string{"ls"}, Readable: []string{"/r"}, Writable: []string{"/w"}, Network: &network, Depth: &depth,
		},
		Acceptance: []task.Check{{Command: "make", Timeout: time.Minute}, {Command: "true"}},
	}
}

func TestEveryModeIsUnpacked(t *testing.T) {
	w, spec := fullSpec()
	for _, f := range reflect.VisibleFields(reflect.TypeOf(spec)) {
		if reflect.ValueOf(spec).FieldByIndex(f.Index).IsZero() {
			t.Errorf("%s is not tested", f.Name)
		}
	}
	for name, c := range map[string]struct {
		req  *agentdv1.SpawnRequest
		want task.Assignment
	}{
		"single": {
			&agentdv1.SpawnRequest{
				RequestId: "r", Team: "shop", Workspace: "/w", ParentTaskId: "sub-1", Description: "d", CancelOnDisconnect: true,
				Mode: &agentdv1.SpawnRequest_Single{Single: w},
			},
			task.Assignment{
				RequestID: "r", Team: "shop", Workspace: "/w", Parent: "sub-1", Description: "d", CancelOnDisconnect: true,
				AgentSpec: spec,
			},
		},
		"parallel": {
			&agentdv1.SpawnRequest{
				Timeout: durationpb.New(time.Hour), Detach: true,
				Mode: &agentdv1.SpawnRequest_Parallel{Parallel: &agentdv1.Parallel{
					Items: []*agentdv1.AgentSpec{{Prompt: "one"}, w}, MaxConcurrency: 2,
				}},
			},
			task.Assignment{
				AgentSpec: task.AgentSpec{Budget: task.Budget{WallTime: time.Hour}},
				Group:     &task.GroupSpec{Items: []task.AgentSpec{{Prompt: "one"}, spec}, MaxConcurrency: 2},
			},
		},
		"chain": {
			&agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Chain{Chain: &agentdv1.Chain{
				Items: []*agentdv1.AgentSpec{w, {Prompt: "{previous}"}}, ResumeFrom: "grp-1",
			}}},
			task.Assignment{Group: &task.GroupSpec{
				Chain: true, Items: []task.AgentSpec{spec, {Prompt: "{previous}"}}, ResumeFrom: "grp-1",
			}},
		},
		"shell": {
			&agentdv1.SpawnRequest{
				Timeout: durationpb.New(time.Minute),
				Mode: &agentdv1.SpawnRequest_Shell{Shell: &agentdv1.Shell{
					Command: "make", Cwd: "sub", Env: map[string]string{"B": "2", "A": "1=1", "C": ""},
				}},
			},
			task.Assignment{
				AgentSpec: task.AgentSpec{Budget: task.Budget{WallTime: time.Minute}},
				Shell:     &task.ShellSpec{Command: "make", Dir: "sub", Env: []string{"A=1=1", "B=2", "C="}},
			},
		},
	} {
		c.want.From = "user"
		got, err := assignmentOf(c.req)
		must(t, err)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s became\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// The names of the environment come in one order, so that a retry of the same request is the same.
func TestEnvironmentIsInOrder(t *testing.T) {
	env := map[string]string{}
	for _, name := range []string{"Q", "A", "_Z", "M", "B", "AA"} {
		env[name] = "x"
	}
	want := []string{"A=x", "AA=x", "B=x", "M=x", "Q=x", "_Z=x"}
	for range 20 {
		got, err := shellOf(&agentdv1.Shell{Env: env})
		must(t, err)
		if !slices.Equal(got.Env, want) {
			t.Fatalf("%q", got.Env)
		}
	}
}

func TestCosts(t *testing.T) {
	for dollars, want := range map[float64]int64{
		0: 0, 1: task.Dollar, 0.1: task.Dollar / 10, 2.5: 5 * task.Dollar / 2, 1e-9: 1, -1: -task.Dollar,
		9e9: 9_000_000_000 * task.Dollar,
	} {
		got, err := costOf("budget.cost_usd", dollars)
		if err != nil || got != want {
			t.Errorf("%v dollars became %d, %v, want %d", dollars, got, err, want)
		}
		if back := costToWire(got); math.Abs(back-dollars) > 1e-9 {
			t.Errorf("%v dollars came back as %v", dollars, back)
		}
	}
	for _, dollars := range []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 1e10, -1e10, math.MaxFloat64, math.MaxInt64, 9.3e9, 1e-10, -1e-10,
	} {
		if got, err := costOf("budget.cost_usd", dollars); err == nil || errdefs.As(err).Field != "budget.cost_usd" {
			t.Errorf("%v dollars became %d, %v", dollars, got, err)
		}
	}
}

// What only the conversion can see is wrong is refused with the field's whole name.
func TestWrongFieldsOfEveryMode(t *testing.T) {
	bad := &durationpb.Duration{Seconds: math.MaxInt64}
	single := func(w *agentdv1.AgentSpec) *agentdv1.SpawnRequest {
		return &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Single{Single: w}}
	}
	for want, req := range map[string]*agentdv1.SpawnRequest{
		"mode": {},
		"teammate.name": {Mode: &agentdv1.SpawnRequest_Teammate{Teammate: &agentdv1.Teammate{
			Name: "Team-Lead", Agent: &agentdv1.AgentSpec{Prompt: "p"},
		}}},
		"detach": {Detach: true, CancelOnDisconnect: true},
		"timeout": {
			Timeout: bad, Mode: &agentdv1.SpawnRequest_Shell{Shell: &agentdv1.Shell{Command: "true"}},
		},
		"shell.env": {Mode: &agentdv1.SpawnRequest_Shell{Shell: &agentdv1.Shell{
			Command: "true", Env: map[string]string{"A": "1", "A=B": "2"},
		}}},
		"single.grant.depth":           single(&agentdv1.AgentSpec{Grant: &agentdv1.GrantRequest{Depth: proto.Int32(-1)}}),
		"single.isolation":             single(&agentdv1.AgentSpec{Isolation: 9}),
		"single.budget.wall_time":      single(&agentdv1.AgentSpec{Budget: &agentdv1.Budget{WallTime: bad}}),
		"single.budget.cost_usd":       single(&agentdv1.AgentSpec{Budget: &agentdv1.Budget{CostUsd: math.NaN()}}),
		"single.acceptance[0].timeout": single(&agentdv1.AgentSpec{Acceptance: []*agentdv1.AcceptanceCommand{{Timeout: bad}}}),
		"parallel.items[1].budget.cost_usd": {Mode: &agentdv1.SpawnRequest_Parallel{Parallel: &agentdv1.Parallel{
			Items: []*agentdv1.AgentSpec{{}, {Budget: &agentdv1.Budget{CostUsd: math.Inf(1)}}},
		}}},
		"chain.items[0].isolation": {Mode: &agentdv1.SpawnRequest_Chain{Chain: &agentdv1.Chain{
			Items: []*agentdv1.AgentSpec{{Isolation: -1}},
		}}},
	} {
		if _, err := assignmentOf(req); err == nil || errdefs.As(err).Field != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
