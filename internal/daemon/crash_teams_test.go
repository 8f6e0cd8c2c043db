package daemon_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// letterRules let each teammate hand letters on. A letter says who gets it next, and after that; so its text fixes its way.
const letterRules = `
rules:
  - last: '<shutdown-request[^>]* control_id="(c-\d+)"'
    tool_calls:
      - name: send_message
        arguments: {kind: shutdown_response, control_id: "{{index .Match 1}}", approve: true}
  - each: 'letter-(\d+) ([a-z0-9-]+) ([^<>\n]+)'
    tool_calls:
      - name: send_message
        arguments: {to: "{{index .Match 2}}", text: "letter-{{index .Match 1}} {{index .Match 3}}"}
default:
  text: I have handed on what I had.
`

// What the traffic is made of.
const (
	mates    = 20
	writers  = 4  // clients that write letters
	legs     = 20 // of a letter's way, below the 64 hops that are allowed
	inFlight = 10 // letters of a writer that are on their way
)

// minMessages is how many go from agent to agent, in the end: 5,000, or 2,000 with the race detector.
func minMessages() int { return sized(5000, 2000) }

// TestCrashTeams kills the daemon at random instants while teammates and a lead hand letters on to each other, and clients
// write more of them, stop teammates and shut them down; then it checks from outside that each accepted message has arrived.
//
// proves D2, D3, D4, M1, M2, M5, W1, W2, S1; case MSG-1, MSG-3
func TestCrashTeams(t *testing.T) {
	kills, seed := crashKills(t), crashSeed(t)
	t.Logf("AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d", seed, kills)
	fmt.Printf("TestCrashTeams: AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d\n", seed, kills) // also when it passes
	p := newLetters(newRig(t, letterRules, 32), seed)
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for n := range writers {
		clients.Go(func() { p.writeLetters(ctx, n) })
	}
	clients.Go(func() { p.disturb(ctx) })
	var watching sync.WaitGroup
	watchCtx, stopWatching := context.WithCancel(context.Background())
	watching.Go(func() { p.watchInbox(watchCtx) })
	killer := rand.New(rand.NewPCG(seed, 2))
	for range kills {
		// Few kills are spread over the time that the letters take.
		time.Sleep(time.Duration(20+killer.IntN(max(400, 20_000/kills))) * time.Millisecond)
		p.rig.kill()
		p.kills = append(p.kills, time.Now())
		p.rig.start()
	}
	p.awaitTraffic()
	stop()
	clients.Wait()
	p.settle()
	stopWatching()
	watching.Wait()
	p.check()
}

// letters is the team, and what clients know of its mail.
type letters struct {
	*load
	seed    uint64
	teams   agentdv1.TeamServiceClient
	ids     map[string]string // task by name, the lead's too
	names   map[string]string // name by task, of those too whose name has gone to another one
	written [][]string        // message ids of each writer, in its order
	arrived atomic.Int64      // letters at the end of their way
	ended   chan struct{}     // tells a writer of one
	inbox   []*agentdv1.InboxMessage
}

// newLetters makes the team.
func newLetters(r *rig, seed uint64) *letters {
	p := &letters{
		load: newLoad(r, seed), seed: seed, teams: agentdv1.NewTeamServiceClient(r.conn), ids: map[string]string{},
		names: map[string]string{}, written: make([][]string, writers), ended: make(chan struct{}, writers*inFlight),
	}
	for _, name := range addresses() {
		if name != leadName {
			p.join(name, 0)
		}
	}
	p.ids[leadName] = p.spawnAs(&agentdv1.SpawnRequest{
		RequestId: "spawn-lead", Workspace: r.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Lead{Lead: &agentdv1.Lead{Agent: &agentdv1.AgentSpec{Prompt: "Hand on what you get."}}},
	})
	p.names[p.ids[leadName]] = leadName
	return p
}

// join spawns a teammate: the n-th of its name.
func (p *letters) join(name string, n int) {
	id := p.spawnAs(&agentdv1.SpawnRequest{
		RequestId: fmt.Sprintf("spawn-%s-%d", name, n), Workspace: p.rig.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Teammate{Teammate: &agentdv1.Teammate{
			Name: name, Agent: &agentdv1.AgentSpec{Prompt: "Hand on what you get."},
		}},
	})
	if id != "" {
		p.ids[name], p.names[id] = id, name
	}
}

const leadName = "team-lead"

// addresses are all who get letters.
func addresses() []string {
	names := []string{leadName}
	for n := range mates {
		names = append(names, fmt.Sprintf("mate-%d", n))
	}
	return names
}

// letter is the n-th letter, and who gets it first. Its way ends at the lead.
func (p *letters) letter(n int) (to, text string) {
	rng := rand.New(rand.NewPCG(p.seed, uint64(n)))
	names := addresses()
	at, way := -1, []string{}
	for range legs {
		next := rng.IntN(len(names) - 1)
		if next >= at && at >= 0 {
			next++ // nobody writes to itself
		}
		at, way = next, append(way, names[next])
	}
	if at == 0 {
		way[legs-1] = names[1+rng.IntN(mates)]
	}
	return way[0], fmt.Sprintf("letter-%d %s %s home", n, strings.Join(way[1:], " "), leadName)
}

// writeLetters writes letters, as many as may be on their way. One that does not arrive soon was lost with a teammate that
// was stopped.
func (p *letters) writeLetters(ctx context.Context, writer int) {
	for n := writer; ctx.Err() == nil; n += writers {
		to, text := p.letter(n)
		if id := p.post(to, fmt.Sprintf("letter-%d", n), text); id != "" {
			p.written[writer] = append(p.written[writer], id)
		}
		if n/writers < inFlight {
			continue
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// disturb stops teammates and shuts them down, now and then, and brings them back.
func (p *letters) disturb(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("mate-%d", p.random(mates))
		switch p.random(4) {
		case 0:
			p.shutDown(name, fmt.Sprint("shutdown-", i))
		case 1:
			p.replace(name, i)
		default:
			p.stop(p.ids[name], agentdv1.StopLevel(1+p.random(3)), fmt.Sprint("stop-", i))
		}
		p.post(name, fmt.Sprint("back-", i), "Go on.")
		pause(ctx, time.Duration(100+p.random(300))*time.Millisecond)
	}
}

// replace kills a teammate and gives its name to a new one, unless a letter has revived it meanwhile. Its unread mail goes back.
func (p *letters) replace(name string, n int) {
	p.stop(p.ids[name], agentdv1.StopLevel_STOP_LEVEL_KILL, fmt.Sprint("kill-", n))
	p.join(name, n+1)
}

// shutDown asks a teammate to end, until that is acknowledged or refused.
func (p *letters) shutDown(name, request string) {
	for {
		stream, err := p.rig.agents.SendMessage(context.Background(), &agentdv1.SendMessageRequest{
			RequestId: request, To: name, Workspace: p.rig.workspace,
			Body: &agentdv1.SendMessageRequest_ShutdownRequest{ShutdownRequest: &agentdv1.ShutdownRequest{}},
		}, grpc.WaitForReady(true))
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil || !again(err) {
			return // it may have ended already
		}
	}
}

// watchInbox follows the leader inbox by its position, over all restarts.
func (p *letters) watchInbox(ctx context.Context) {
	after, home := uint64(0), regexp.MustCompile(`^letter-\d+ home$`)
	for ctx.Err() == nil {
		stream, err := p.teams.ReadInbox(ctx, &agentdv1.ReadInboxRequest{
			Workspace: p.rig.workspace, After: after, Follow: true,
		}, grpc.WaitForReady(true))
		for err == nil {
			var item *agentdv1.ReadInboxResponse
			if item, err = stream.Recv(); err != nil || item.GetMessage() == nil {
				continue
			}
			after = item.GetMessage().GetPos()
			p.inbox = append(p.inbox, item.GetMessage())
			if home.MatchString(item.GetMessage().GetText()) {
				p.arrived.Add(1)
				select {
				case p.ended <- struct{}{}:
				default:
				}
			}
		}
		if !again(err) {
			p.rig.t.Errorf("inbox: %v", err)
			return
		}
	}
}

// awaitTraffic waits until agents have sent enough, with some to spare for what was refused: however long that takes, as long
// as it goes on.
func (p *letters) awaitTraffic() {
	const patience = time.Minute
	enough, sent := int64(minMessages()*5/4), int64(0)
	for since := time.Now(); time.Since(since) < patience; time.Sleep(100 * time.Millisecond) {
		got, err := p.teams.GetTeam(context.Background(), &agentdv1.GetTeamRequest{Workspace: p.rig.workspace})
		if err != nil {
			p.rig.t.Fatal(err)
		}
		if n := got.GetTeam().GetUsage().GetToolCalls(); n > sent {
			sent, since = n, time.Now()
		}
		if sent >= enough {
			return
		}
	}
	p.rig.t.Errorf("agents have sent %d messages, and for %v none", sent, patience)
}

// settle waits until nothing is under way, and sees that nothing is stuck: who rests has read all its mail. Then it wakes
// those that have ended, so that they take what waits for them, and waits again.
func (p *letters) settle() {
	p.rig.quiet()
	for name, id := range p.ids {
		got, err := p.rig.tasks.GetTask(context.Background(), &agentdv1.GetTaskRequest{TaskId: id})
		if t := got.GetTask(); err != nil || t.GetUnread() > 0 && t.GetState() == agentdv1.TaskState_TASK_STATE_IDLE {
			p.rig.t.Errorf("%s rests with %d unread messages (%v)", name, t.GetUnread(), err)
		}
		p.post(name, "last-"+name, "That was all.")
	}
	p.rig.quiet()
}
