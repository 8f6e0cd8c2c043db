package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/daemon"
)

// crashRules let each agent read in parallel, run commands that leave a line each, write, and report.
const crashRules = `
rules:
  - step: 1
    delay: 5ms
    text: I look around, word by word, in several chunks.
    chunk_delay: 1ms
    tool_calls:
      - {name: ls, arguments: {}}
      - {name: glob, arguments: {pattern: "*.txt"}}
      - {name: grep, arguments: {pattern: seed}}
  - step: 2
    agent: 'task id (sub-\d+)'
    delay: 5ms
    tool_calls:
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} 2a >> ran.log; sleep 0.0{{len .Last}}"}}
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} 2b >> ran.log"}}
  - step: 3
    agent: 'task id (sub-\d+)'
    delay: 10ms
    tool_calls:
      - {name: write, arguments: {path: "out/{{index .AgentMatch 1}}.txt", content: "from {{index .AgentMatch 1}}"}}
      - {name: read, arguments: {path: seed.txt}}
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} 3 >> ran.log; (sleep 30 &) ; true"}}
  - step: 4
    delay: 10ms
    text: Almost done.
    tool_calls:
      - {name: no_such_tool, arguments: {a: 1}}
      - {name: read, arguments: "{broken"}
  - step: 5
    delay: 5ms
    tool_calls:
      - {name: report, arguments: {summary: all done, claims: [seed was read]}}
default:
  text: I am done.
`

// crashKills is how often the daemon is killed: AGENTD_CRASH_KILLS, or 20, or 10 with the race detector.
func crashKills(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("AGENTD_CRASH_KILLS"))
	if os.Getenv("AGENTD_CRASH_KILLS") == "" {
		return sized(20, 10)
	}
	if err != nil || n < 1 {
		t.Fatalf("AGENTD_CRASH_KILLS must be a number above 0")
	}
	return n
}

// crashSeed fixes the traffic and the instants of the kills: AGENTD_CRASH_SEED, or the time.
func crashSeed(t *testing.T) uint64 {
	text := os.Getenv("AGENTD_CRASH_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("AGENTD_CRASH_SEED must be a number: %v", err)
	}
	return n
}

// TestCrash kills the daemon at random instants under load and checks from outside what the contract promises.
//
// proves D1, D2, D4, D5, S1, N7, O1, T3; case STA-2, STA-9, OUT-3
func TestCrash(t *testing.T) {
	kills, seed := crashKills(t), crashSeed(t)
	t.Logf("AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d", seed, kills)
	fmt.Printf("TestCrash: AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d\n", seed, kills) // also when it passes
	r := newRig(t, crashRules, 64)
	if err := os.WriteFile(filepath.Join(r.workspace, "seed.txt"), []byte("seed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := newLoad(r, seed)
	load.run(seed, kills, load.single)
	load.check()
}

func newLoad(r *rig, seed uint64) *load {
	return &load{rig: r, rng: rand.New(rand.NewPCG(seed, 1)), watched: map[string]*watched{}, sent: map[string]string{}}
}

// run lets clients spawn what next makes, kills the daemon so often meanwhile, and waits until all that was spawned has
// ended.
func (l *load) run(seed uint64, kills int, next func(request, last string) *agentdv1.SpawnRequest) {
	ctx, stopLoad := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { l.client(ctx, i, next) })
	}
	killer := rand.New(rand.NewPCG(seed, 2))
	for range kills {
		time.Sleep(time.Duration(20+killer.IntN(400)) * time.Millisecond)
		l.rig.kill()
		l.kills = append(l.kills, time.Now())
		l.rig.start()
	}
	stopLoad()
	clients.Wait()
	l.followers.Wait()
}

// single is one agent, now and then below the last one, so that trees are killed too.
func (l *load) single(request, last string) *agentdv1.SpawnRequest {
	req := &agentdv1.SpawnRequest{
		RequestId: request, Workspace: l.rig.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{Prompt: "do " + request}},
	}
	if l.random(3) == 0 {
		req.ParentTaskId = last
	}
	return req
}

// load is the clients' side: what was acknowledged, and what streams showed.
type load struct {
	rig       *rig
	followers sync.WaitGroup
	kills     []time.Time // of the daemon

	mu      sync.Mutex
	rng     *rand.Rand
	watched map[string]*watched // by task id
	sent    map[string]string   // acknowledged messages: recipient by message id
}

// watched is what a follower saw of one task, over all reconnects.
type watched struct {
	spawn   *agentdv1.SpawnRequest
	entries []*agentdv1.Entry
	outcome *agentdv1.Outcome
}

func (l *load) random(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// client spawns tasks one after the other, follows each, and steers or stops some.
func (l *load) client(ctx context.Context, number int, next func(request, last string) *agentdv1.SpawnRequest) {
	last := ""
	for i := 0; ctx.Err() == nil; i++ {
		w := &watched{spawn: next(fmt.Sprintf("spawn-%d-%d", number, i), last)}
		id := l.spawnAs(w.spawn)
		if last = id; id == "" {
			continue // the parent ended first
		}
		l.mu.Lock()
		l.watched[id] = w
		l.mu.Unlock()
		l.followers.Go(func() { l.follow(id, w) })
		if l.random(2) == 0 {
			l.send(id, fmt.Sprintf("steer-%d-%d", number, i))
		}
		if l.random(10) == 0 {
			l.stop(id, agentdv1.StopLevel(1+l.random(3)), fmt.Sprintf("stop-%d-%d", number, i))
		}
		pause(ctx, time.Duration(l.random(60))*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// again tells whether a call is to be repeated: the daemon is away.
func again(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Canceled
}

// spawn repeats a spawn under its request id until it is acknowledged.
func (l *load) spawn(request string) string { return l.spawnPrompt(request, "do "+request) }

func (l *load) spawnPrompt(request, prompt string) string {
	return l.spawnAs(&agentdv1.SpawnRequest{
		RequestId: request, Workspace: l.rig.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{Prompt: prompt}},
	})
}

// spawnAs gives no id when the parent has ended or is stopping, or a teammate of that name lives.
func (l *load) spawnAs(req *agentdv1.SpawnRequest) string {
	for {
		stream, err := l.rig.agents.Spawn(context.Background(), req, grpc.WaitForReady(true))
		if err == nil {
			var item *agentdv1.SpawnResponse
			if item, err = stream.Recv(); err == nil {
				return item.GetTask().GetId()
			}
		}
		switch code := status.Code(err); {
		case code == codes.FailedPrecondition && req.GetParentTaskId() != "",
			code == codes.AlreadyExists && req.GetTeammate() != nil:
			return ""
		}
		if !again(err) {
			l.rig.t.Errorf("spawn %s: %v", req.GetRequestId(), err)
			return ""
		}
	}
}

// send repeats a message until it is acknowledged, or refused because the task has ended.
func (l *load) send(to, request string) { l.post(to, request, "steer "+request) }

// post is send of a text. It gives the id of the message; empty when it was refused.
func (l *load) post(to, request, text string) string {
	for {
		stream, err := l.rig.agents.SendMessage(context.Background(), &agentdv1.SendMessageRequest{
			RequestId: request, To: to, Workspace: l.rig.workspace,
			Body: &agentdv1.SendMessageRequest_Text{Text: text},
		}, grpc.WaitForReady(true))
		if err == nil {
			var receipt *agentdv1.SendMessageResponse
			if receipt, err = stream.Recv(); err == nil {
				l.mu.Lock()
				l.sent[receipt.GetMessageId()] = to
				l.mu.Unlock()
				return receipt.GetMessageId()
			}
		}
		if status.Code(err) == codes.FailedPrecondition {
			return ""
		}
		if !again(err) {
			l.rig.t.Errorf("send %s: %v", request, err)
			return ""
		}
	}
}

// stop repeats a stop until the task is reported as ended.
func (l *load) stop(id string, level agentdv1.StopLevel, request string) {
	for {
		stream, err := l.rig.agents.TaskStop(context.Background(), &agentdv1.TaskStopRequest{
			RequestId: request, TaskId: id, Level: level,
		}, grpc.WaitForReady(true))
		for err == nil {
			var item *agentdv1.TaskStopResponse
			if item, err = stream.Recv(); err == nil && item.GetTask() != nil {
				return
			}
		}
		if !again(err) {
			l.rig.t.Errorf("stop %s: %v", request, err)
			return
		}
	}
}

// follow reads a task's output to its end, reconnecting with its cursor.
func (l *load) follow(id string, w *watched) {
	for w.outcome == nil {
		from := uint64(0)
		if n := len(w.entries); n > 0 {
			from = w.entries[n-1].GetSeq() + 1
		}
		stream, err := l.rig.agents.TaskOutput(context.Background(), &agentdv1.TaskOutputRequest{
			TaskId: id, FromSeq: from, Follow: true, Deltas: true,
		}, grpc.WaitForReady(true))
		for err == nil && w.outcome == nil {
			var item *agentdv1.TaskOutputResponse
			if item, err = stream.Recv(); err == nil {
				w.take(item)
			}
		}
		if err != nil && !again(err) {
			l.rig.t.Errorf("follow %s: %v", id, err)
			return
		}
	}
}

func (w *watched) take(item *agentdv1.TaskOutputResponse) {
	switch {
	case item.GetEntry() != nil:
		w.entries = append(w.entries, item.GetEntry())
	case item.GetOutcome() != nil:
		w.outcome = item.GetOutcome()
	}
}

// check is what must hold after all kills, when every task has ended.
func (l *load) check() {
	t, r := l.rig.t, l.rig
	about, err := r.about.GetStatus(context.Background(), &agentdv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ran := l.ranLines()
	reasons := map[string]int{}
	for id, w := range l.watched {
		l.checkTask(id, w)
		l.checkCalls(id, w, ran)
		reasons[w.outcome.GetReason().String()]++
		if again := l.spawnAs(w.spawn); again != id {
			t.Errorf("request %s gave %s and now gives %s", w.spawn.GetRequestId(), id, again)
		}
	}
	for line, n := range ran {
		if n > 1 {
			t.Errorf("%q ran %d times", line, n)
		}
	}
	l.checkMail()
	for _, rejection := range r.model.Rejections() {
		t.Errorf("the model refused a history: %s", rejection)
	}
	for _, left := range r.leftovers(about.GetStoreId()) {
		t.Errorf("a process is left: %s", left)
	}
	r.end(os.Interrupt)
	report, err := daemon.CheckStore(context.Background(), r.settings.StateDir, os.Stderr)
	if err != nil || !report.OK() || report.Quarantined > 0 {
		t.Errorf("the store: %v, %v", report, err)
	}
	t.Logf("%d tasks %v, %d messages, %d commands ran; %s", len(l.watched), reasons, len(l.sent), len(ran), report)
}

// checkTask: it is terminal, with one terminal event, and what the follower saw piecemeal is what stands there now.
func (l *load) checkTask(id string, w *watched) {
	t := l.rig.t
	whole := &watched{}
	l.follow(id, whole)
	if len(whole.entries) != len(w.entries) {
		t.Errorf("%s: followed %d entries, there are %d", id, len(w.entries), len(whole.entries))
		return
	}
	terminal := 0
	for i, e := range whole.entries {
		if !proto.Equal(e, w.entries[i]) {
			t.Errorf("%s: entry %d was %v, is %v", id, i, w.entries[i], e)
		}
		if i > 0 && e.GetSeq() <= whole.entries[i-1].GetSeq() {
			t.Errorf("%s: seq %d after %d", id, e.GetSeq(), whole.entries[i-1].GetSeq())
		}
		if e.GetState() != nil && e.GetState().GetTo() >= agentdv1.TaskState_TASK_STATE_COMPLETED {
			terminal++
		}
	}
	if terminal != 1 {
		t.Errorf("%s: %d terminal events", id, terminal)
	}
	interrupted := w.outcome.GetReason() == agentdv1.TaskReason_TASK_REASON_INTERRUPTED && w.spawn.GetShell() != nil
	if w.outcome.GetState() == agentdv1.TaskState_TASK_STATE_FAILED && !interrupted && !l.looped(w) {
		t.Errorf("%s: %v", id, w.outcome)
	}
}

// looped tells whether a task ended as what takes the daemon down, and the kills let it look so: on a busy machine, four may
// come before its next step (D6).
func (l *load) looped(w *watched) bool {
	var stepped, ended time.Time
	for _, e := range w.entries {
		ended = e.GetTime().AsTime()
		if stepped.IsZero() || e.GetAssistant() != nil || e.GetToolResult() != nil {
			stepped = ended
		}
	}
	kills := 0
	for _, at := range l.kills {
		if at.After(stepped) && at.Before(ended) {
			kills++
		}
	}
	return kills > 3 && w.outcome.GetReason() == agentdv1.TaskReason_TASK_REASON_CRASH_LOOP
}

// checkCalls: every call was answered at most once, and a command whose answer is known ran.
func (l *load) checkCalls(id string, w *watched, ran map[string]int) {
	t := l.rig.t
	commands, answers := map[string]string{}, map[string]string{}
	for _, e := range w.entries {
		for _, c := range e.GetAssistant().GetToolCalls() {
			if _, twice := commands[c.GetId()]; twice {
				t.Errorf("%s: call %s was asked twice", id, c.GetId())
			}
			var args struct{ Command string }
			_ = json.Unmarshal([]byte(c.GetArguments()), &args) // one call is malformed on purpose
			commands[c.GetId()] = args.Command
		}
		if res := e.GetToolResult(); res != nil {
			if _, twice := answers[res.GetCallId()]; twice {
				t.Errorf("%s: call %s was answered twice", id, res.GetCallId())
			}
			answers[res.GetCallId()] = res.GetText()
		}
	}
	for call, text := range answers {
		rest, isEcho := strings.CutPrefix(commands[call], "echo ")
		line, _, _ := strings.Cut(rest, " >>")
		if isEcho && strings.HasSuffix(text, "[exit code 0]") && ran[line] != 1 {
			t.Errorf("%s: %q is answered as done and ran %d times", id, line, ran[line])
		}
	}
	if w.outcome.GetState() == agentdv1.TaskState_TASK_STATE_COMPLETED && len(answers) != len(commands) {
		t.Errorf("%s: %d calls, %d answers", id, len(commands), len(answers))
	}
}

// ranLines counts the lines that commands left.
func (l *load) ranLines() map[string]int {
	text, err := os.ReadFile(filepath.Join(l.rig.workspace, "ran.log"))
	if err != nil {
		l.rig.t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		ran[strings.TrimSpace(line)]++
	}
	return ran
}

// checkMail: an acknowledged message is once in its recipient's transcript, or the recipient did not complete.
func (l *load) checkMail() {
	for message, to := range l.sent {
		found := 0
		for _, e := range l.watched[to].entries {
			if e.GetInput().GetMessageId() == message {
				found++
			}
		}
		completed := l.watched[to].outcome.GetState() == agentdv1.TaskState_TASK_STATE_COMPLETED
		if found > 1 || (found == 0 && completed) {
			l.rig.t.Errorf("message %s to %s is %d times in its transcript", message, to, found)
		}
	}
}
