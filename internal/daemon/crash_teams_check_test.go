package daemon_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/daemon"
)

// check is what must hold after all kills.
func (p *letters) check() {
	t := p.rig.t
	whole := map[string][]*agentdv1.Entry{}
	for id := range p.names {
		whole[id] = p.transcript(id)
		p.checkLives(id, whole[id])
	}
	p.checkMail(whole)
	p.checkNotices(whole)
	for _, rejection := range p.rig.model.Rejections() {
		t.Errorf("the model refused a history: %s", rejection)
	}
	p.rig.end(os.Interrupt)
	report, err := daemon.CheckStore(context.Background(), p.rig.settings.StateDir, os.Stderr)
	if err != nil || !report.OK() || report.Quarantined > 0 {
		t.Errorf("the store: %v, %v", report, err)
	}
	t.Logf("%d letters came home; %s", p.arrived.Load(), report)
}

// checkLives: each life but the last has ended once, a message opened the next one, and the last is idle, but of one whose name
// is another one's now (S1, W1, W2).
func (p *letters) checkLives(id string, entries []*agentdv1.Entry) {
	t := p.rig.t
	ends, state, seq := 0, agentdv1.TaskState_TASK_STATE_UNSPECIFIED, uint64(0)
	for _, e := range entries {
		if e.GetSeq() <= seq {
			t.Errorf("%s: seq %d after %d", id, e.GetSeq(), seq)
		}
		seq = e.GetSeq()
		change := e.GetState()
		if change == nil {
			continue
		}
		if change.GetFrom() != state && state != 0 { // the first one is not shown
			t.Errorf("%s: a change from %v in state %v", id, change.GetFrom(), state)
		}
		if state = change.GetTo(); terminal(state) {
			ends++
		}
		if terminal(change.GetFrom()) && state != agentdv1.TaskState_TASK_STATE_QUEUED {
			t.Errorf("%s: %v after its end", id, state)
		}
	}
	got, err := p.rig.tasks.GetTask(context.Background(), &agentdv1.GetTaskRequest{TaskId: id})
	if err != nil {
		t.Fatal(err)
	}
	lives := ends
	if p.ids[p.names[id]] == id {
		lives++
	}
	rests := state == agentdv1.TaskState_TASK_STATE_IDLE
	if got.GetTask().GetState() != state || rests != (lives > ends) || rests == terminal(state) {
		t.Errorf("%s is %v, and its transcript says %v", id, got.GetTask().GetState(), state)
	}
	if int(got.GetTask().GetIncarnation()) != lives {
		t.Errorf("%s has ended %d times and is in incarnation %d", id, ends, got.GetTask().GetIncarnation())
	}
}

func terminal(s agentdv1.TaskState) bool {
	return s >= agentdv1.TaskState_TASK_STATE_COMPLETED && s <= agentdv1.TaskState_TASK_STATE_KILLED
}

// sent is an accepted message, to a name.
type sent struct{ id, from, to string }

// checkMail: each accepted message stands once in its recipient's transcript, in the order in which its sender sent them, or
// is a dead letter (D2, D4, M1, M2, M5).
func (p *letters) checkMail(whole map[string][]*agentdv1.Entry) {
	t := p.rig.t
	delivered, places := map[string]place{}, 0
	for in, entries := range whole {
		for _, e := range entries {
			if id := e.GetInput().GetMessageId(); strings.HasPrefix(id, "m-") {
				if other, twice := delivered[id]; twice {
					t.Errorf("%s is twice in transcripts: %v and %s", id, other, in)
				}
				delivered[id] = place{in, e.GetSeq()}
				places++
			}
		}
	}
	accepted := p.accepted(whole)
	if n := len(accepted) - len(p.sent); n < minMessages() {
		t.Errorf("agents exchanged %d messages; the test wants %d", n, minMessages())
	}
	last := map[[2]string]uint64{} // by sender and recipient's task
	dead := p.receipts(accepted, delivered)
	for _, m := range accepted {
		at, found := delivered[m.id]
		switch pair := [2]string{m.from, at.in}; {
		case found == dead[m.id]:
			t.Errorf("%v: delivered %v, a dead letter %v", m, found, dead[m.id])
		case !found:
		case p.names[at.in] != m.to && at.in != m.to:
			t.Errorf("%v is in the transcript of %s", m, at.in)
		case at.seq <= last[pair]:
			t.Errorf("%v is at %d, and one that was sent before at %d", m, at.seq, last[pair])
		default:
			last[pair] = at.seq
		}
	}
	t.Logf("%d messages of clients, %d of agents, %d dead letters, %d delivered", len(p.sent), len(accepted)-len(p.sent), len(dead), places)
}

// place is where a message stands.
type place struct {
	in  string // task
	seq uint64
}

// accepted are the messages that the answers of tools, and acknowledgements, tell of, each sender's in its order.
func (p *letters) accepted(whole map[string][]*agentdv1.Entry) []sent {
	var all []sent
	for id, entries := range whole {
		for _, e := range entries {
			var answer struct {
				ID      string `json:"message_id"`
				To      string `json:"to"`
				Control string `json:"control_id"`
			}
			res := e.GetToolResult()
			if res.GetTool() != "send_message" || res.GetIsError() || json.Unmarshal([]byte(res.GetText()), &answer) != nil ||
				answer.ID == "" { // the answer of a shutdown request is none
				continue
			}
			from := id
			if answer.Control != "" {
				from += "'s control" // which goes first
			}
			all = append(all, sent{answer.ID, from, cmp.Or(answer.To, leadName)})
		}
	}
	ordered := map[string]bool{}
	for n, ids := range p.written {
		for _, id := range ids {
			ordered[id] = true
			all = append(all, sent{id, "writer " + string(rune('0'+n)), p.sent[id]})
		}
	}
	for id, to := range p.sent {
		if !ordered[id] {
			all = append(all, sent{id, id, to})
		}
	}
	return all
}

// receipts asks for what became of each message, and gives those that could not be delivered. A receipt of one that was says
// where it stands (M4).
func (p *letters) receipts(all []sent, delivered map[string]place) map[string]bool {
	var mu sync.Mutex
	dead := map[string]bool{}
	var asking sync.WaitGroup
	for part := range slices.Chunk(all, len(all)/16+1) {
		asking.Go(func() {
			for _, m := range part {
				got, err := p.rig.tasks.GetMessageReceipts(context.Background(), &agentdv1.GetMessageReceiptsRequest{MessageId: m.id})
				if err != nil || len(got.GetReceipts()) != 1 {
					p.rig.t.Errorf("%v: %v %v", m, got, err)
					continue
				}
				switch r := got.GetReceipts()[0]; r.GetState() {
				case agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED, agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED:
					if r.GetSeq() != delivered[m.id].seq {
						p.rig.t.Errorf("%v is at %v, and its receipt says %v", m, delivered[m.id], r)
					}
				case agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE, agentdv1.ReceiptState_RECEIPT_STATE_SUPERSEDED:
					mu.Lock()
					dead[m.id] = true
					mu.Unlock()
				default:
					p.rig.t.Errorf("%v: %v", m, r)
				}
			}
		})
	}
	asking.Wait()
	return dead
}

// checkNotices: who follows the inbox over all restarts sees what stands there, and each turn that ended with a rest has one
// notice (D3, M9).
func (p *letters) checkNotices(whole map[string][]*agentdv1.Entry) {
	t := p.rig.t
	notices, last := map[string]int{}, uint64(0)
	all := p.readInbox()
	for i, m := range all {
		if m.GetPos() <= last {
			t.Errorf("inbox: position %d after %d", m.GetPos(), last)
		}
		last = m.GetPos()
		if m.GetKind() == agentdv1.MessageKind_MESSAGE_KIND_IDLE {
			notices[m.GetTaskId()]++
		}
		if i < len(p.inbox) && p.inbox[i].GetMessageId() != m.GetMessageId() {
			t.Fatalf("inbox: number %d is %v, and was seen as %v", i, m, p.inbox[i])
		}
	}
	for id, entries := range whole {
		turns, worked := 0, false
		for _, e := range entries {
			worked = worked || e.GetAssistant() != nil
			to := e.GetState().GetTo()
			rests := to == agentdv1.TaskState_TASK_STATE_IDLE
			if rests && worked && p.names[id] != leadName {
				turns++
			}
			worked = worked && !rests && to != agentdv1.TaskState_TASK_STATE_QUEUED
		}
		if notices[id] != turns {
			t.Errorf("%s has ended %d turns, and the inbox tells of %d", id, turns, notices[id])
		}
	}
}

// readInbox reads the leader inbox as it is.
func (p *letters) readInbox() (all []*agentdv1.InboxMessage) {
	stream, err := p.teams.ReadInbox(context.Background(), &agentdv1.ReadInboxRequest{Workspace: p.rig.workspace})
	for err == nil {
		var item *agentdv1.ReadInboxResponse
		if item, err = stream.Recv(); err == nil && item.GetMessage() != nil {
			all = append(all, item.GetMessage())
		}
	}
	if !errors.Is(err, io.EOF) {
		p.rig.t.Errorf("the inbox: %v", err)
	}
	return all
}
