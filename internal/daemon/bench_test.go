package daemon_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// benchRules keep an agent busy until its mail is counted, or end it at once.
const benchRules = `
rules:
  - user: wait
    tool_calls:
      - {name: bash, arguments: {command: sleep 600, timeout_ms: 600000}}
default:
  text: done
`

// clients is how many callers share the connection, beside GOMAXPROCS.
const clients = 32

// BenchmarkEcho is the limit that the others are held against: a call that touches no disk.
func BenchmarkEcho(b *testing.B) {
	r := newRig(b, benchRules, 16)
	each(b, func(context.Context, int64) error {
		_, err := r.about.GetStatus(context.Background(), &agentdv1.GetStatusRequest{})
		return err
	})
}

// BenchmarkSend is a durable message: its row, its recipient's count, its feed row, acknowledged.
func BenchmarkSend(b *testing.B) {
	r := newRig(b, benchRules, 16)
	l := &load{rig: r}
	const fill = 900 // within a mailbox's bound
	to := make([]string, b.N/fill+1)
	for i := range to {
		to[i] = l.spawnPrompt(fmt.Sprint("busy-", i), "wait")
	}
	defer func() { // the daemon is killed in the end, and nobody would come after it to end their commands
		b.StopTimer()
		for i, id := range to {
			l.stop(id, agentdv1.StopLevel_STOP_LEVEL_KILL, fmt.Sprint("over-", i))
		}
	}()
	each(b, func(ctx context.Context, n int64) error {
		stream, err := r.agents.SendMessage(ctx, &agentdv1.SendMessageRequest{
			To: to[(n-1)/fill], Body: &agentdv1.SendMessageRequest_Text{Text: "a message of some length, as people write them"},
		})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// BenchmarkSpawn is a durable spawn, acknowledged; its run, with one model call, goes on beside it.
func BenchmarkSpawn(b *testing.B) {
	r := newRig(b, benchRules, 64)
	each(b, func(ctx context.Context, n int64) error {
		stream, err := r.agents.Spawn(ctx, &agentdv1.SpawnRequest{
			RequestId: fmt.Sprint("bench-", n), Workspace: r.workspace, Detach: true,
			Mode: &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{Prompt: "say done"}},
		})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// BenchmarkTask is a whole trivial task, from spawn to outcome, one after the other.
func BenchmarkTask(b *testing.B) {
	r := newRig(b, benchRules, 64)
	for n := range b.N {
		if _, outcome := r.finish(fmt.Sprint("bench-", n), "say done"); outcome == nil {
			b.Fatal("no outcome")
		}
	}
}

// each calls f from many clients at once.
func each(b *testing.B, f func(ctx context.Context, n int64) error) {
	var n atomic.Int64
	b.SetParallelism(clients)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(context.Background(), n.Add(1)); err != nil {
				b.Error(err)
			}
		}
	})
}
