// Package journal is the schema on disk: typed rows over store.Store, and the one door for writes. It says how rows are
// written; nouns say what changes, runtime says when.
//
// Everything durable is a Batch that Commit writes as a whole. The schema, as partition, then log or record:
//
//	daemon
//	  daemon            record  DaemonRow      store id, starts, schema version, clean stop
//	  spare             record  DaemonRow      the same again, for when `daemon` is damaged
//	  ids               record  IDsRow         next block of ids, next team
//	  probe/N           record  bytes          what ends a stall when it can be written; dropped at once
//	  block/N           record  BlockRow       owner of the ids N*1000 to N*1000+999
//	  team/ID           record  TeamRow        list of teams
//	  name/LOWER        record  TeamRefRow     team of a name, create-only
//	  root/HASH         record  TeamRefRow     team of a workspace, create-only
//	  request/HASH      record  RequestRow     first outcomes of request ids about teams themselves
//	  requests          log     RequestSeenRow these in the order of their arrival
//	t-N
//	  owner             record  OwnerRow       fence: the daemon's start that owns the partition
//	  closed            record  bytes          exists when the team is being deleted, or is; its revision 0 guards what begins
//	  created           log     CreatedRow     tasks in the order of their creation
//	  task/ID           record  TaskRow        the task
//	  spec/ID           record  SpecRow        what it was given; absent: nothing beside its opening
//	  item/GROUP/N      record  ItemRow        steps of a chain
//	  live/ID           record  LiveRow        exists while the task has work; guards its loop's writes
//	  idle/ID           record  IdleRow        exists while a teammate lives and has none
//	  work              record  vector         its revision changes when a teammate gets work or runs out of it
//	  member/LOWER      record  MemberRow      who has a name
//	  control/ID        record  ControlRow     handshakes of a teammate
//	  sent/M/ID         record  SentRow        a message and its recipient, for receipts
//	  outbox/M          record  OutboxRow      mail that is still to be handed on
//	  child/PARENT/ID   record  ChildRow       children of a task
//	  usage/ID          record  vector         usage of the task and those below it, or of the team
//	  entry/ID          log     EntryRow       the transcript
//	  result/ID         record  ResultRow      what it concluded
//	  output/ID/CALL/N  record  bytes          whole output of a call, in pieces
//	  process/ID/CALL   record  ProcessRow     process trees let loose
//	  mail/ID           log     MailRow        accepted mail; `leader` is the leader inbox
//	  inbox/ID          record  vector         count and bytes of unread mail; its revision guards a turn's end
//	  mailbox/ID        record  MailboxRow     what was taken of the mail; `user` is of the leader inbox too
//	  request/HASH      record  RequestRow     first outcomes of request ids
//	  requests          log     RequestSeenRow request ids in the order of their arrival
//	  due/ID/KIND       record  DueRow         deadlines
//	  feed              log     FeedRow        what happened, for those who watch
//
// A test compares this drawing with a real file.
package journal

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

const daemonPart store.Partition = "daemon"

// Journal reads and writes typed rows. All methods are safe for concurrent use.
type Journal struct {
	st          stallable
	now         func() time.Time
	log         *slog.Logger
	daemon      *storev1.DaemonRow // as this start wrote it
	daemonGuard []store.Guard      // of its next write
	clean       bool               // the daemon before stopped in order
	stall       *stall
	feeds       *feeds
	idsTurn     chan struct{}                 // holds a token while somebody changes the record `ids`
	rouse       func(team string, id task.ID) // told of what is to be taken up; see OnWork

	mu       sync.Mutex
	fences   map[string]store.Guard    // by team
	ids      map[string]idRange        // reserved ids by team
	owners   map[uint64]string         // team by block of ids; never changes
	watchers map[string]chan struct{}  // of feeds, closed when there may be more, by feedKey
	bells    map[string]map[*Bell]bool // by what they listen to: team and log, or record
}

// Rev is the revision of a record: the position of its last write.
type Rev = store.Pos

// Row is a value with the revision that guards its next change.
type Row[T any] struct {
	Value T
	Rev   Rev
}

// Open writes this start and brings the schema up to date. It answers SchemaTooNew for a store of a newer agentd.
func Open(ctx context.Context, st store.Store, now func() time.Time, log *slog.Logger) (*Journal, error) {
	return open(ctx, st, now, log, migrations())
}

func open(
	ctx context.Context, st store.Store, now func() time.Time, log *slog.Logger, table []migration,
) (*Journal, error) {
	stall := newStall()
	j := &Journal{
		st: stallable{st, stall}, now: now, log: log, stall: stall, feeds: newFeeds(stall), idsTurn: make(chan struct{}, 1),
		fences: map[string]store.Guard{}, ids: map[string]idRange{}, owners: map[uint64]string{},
		watchers: map[string]chan struct{}{}, bells: map[string]map[*Bell]bool{}, rouse: func(string, task.ID) {},
	}
	row, err := j.readDaemon(ctx)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		row = &storev1.DaemonRow{StoreId: newStoreID(), Clean: true, Schema: newest(table)}
	case err != nil:
		return nil, err
	case row.GetSchema() > newest(table):
		return nil, tooNew(row.GetSchema(), newest(table))
	}
	j.clean = row.GetClean()
	row.Starts++
	row.Clean = false
	j.daemon = row
	if err := j.putDaemon(ctx); err != nil {
		return nil, err
	}
	if err := j.migrate(ctx, table); err != nil {
		return nil, err
	}
	if err := j.mend(ctx); err != nil {
		return nil, err
	}
	return j, j.loadFeeds(ctx)
}

// Commit writes the batch as a whole; nil means that it is on disk. Once it is handed over it is not taken back: end
// ctx only to give up waiting before that. After a commit the followers of its transcripts are woken.
//
// Errors with reason Conflict, Fenced, TooLarge, BadArgument and StoreStalled mean that nothing was written;
// OutcomeUnknown that it may still land: load again and go on. Followers of what did land are woken when the store has
// recovered.
func (j *Journal) Commit(ctx context.Context, b *Batch) error {
	if b.err != nil {
		return b.err
	}
	fence, err := j.fence(ctx, b.team)
	if err != nil {
		return err
	}
	feed, flight, err := j.stamp(b)
	if err != nil {
		return err
	}
	ops := b.ops
	if len(feed) > 0 {
		ops = slices.Concat(ops, feed)
	}
	done, err := j.st.Commit(ctx, store.Batch{Part: part(b.team), Fence: fence, Guards: b.guards, Ops: ops})
	j.arrived(flight, err)
	if err != nil {
		return j.explain(ctx, b, err)
	}
	for _, pos := range done.Pos {
		b.last = max(b.last, pos)
	}
	j.wake(b)
	for _, id := range b.roused {
		j.rouse(b.team, id)
	}
	if b.posted {
		j.rouse(b.team, "")
	}
	return nil
}

// OnWork says who is told, after a commit, of a task that has got work and is to have a loop, and, with an empty id, of mail
// that a team's outbox holds. It is called once, before the first commit of a team. What is told is a hint: the store says
// what is to be done.
func (j *Journal) OnWork(rouse func(team string, id task.ID)) { j.rouse = rouse }

// release wakes the followers of a log and rings the bells that listen to it, or to a record. The caller holds mu.
func (j *Journal) release(key string) {
	for bell := range j.bells[key] {
		bell.ring()
	}
	if ch, ok := j.watchers[key]; ok {
		close(ch)
		delete(j.watchers, key)
	}
}

// wake tells followers that there is more. The owner of a partition is the only one that appends to it, so its own
// commits are all there is to tell.
func (j *Journal) wake(b *Batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, op := range b.ops {
		if name := heard(op); name != "" {
			j.release(b.team + "/" + name)
		}
	}
}

// wakeAll lets all followers look again: what an unknown commit landed, nobody told them.
func (j *Journal) wakeAll() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, ch := range j.watchers {
		close(ch)
	}
	clear(j.watchers)
	for _, listeners := range j.bells {
		for bell := range listeners {
			bell.ring()
		}
	}
}

func part(team string) store.Partition { return store.Partition(team) }

// get reads one record into row and gives its revision.
func (j *Journal) get(ctx context.Context, p store.Partition, key string, row proto.Message) (store.Pos, error) {
	rec, err := j.st.Get(ctx, p, key)
	if err != nil {
		return 0, err
	}
	return rec.Rev, decode(key, rec.Value, row)
}

func decode(key string, value []byte, row proto.Message) error {
	if err := proto.Unmarshal(value, row); err != nil {
		return errdefs.Wrap(err, errdefs.DataLoss, errdefs.RecordCorrupt, key, "row %s can't be decoded", key)
	}
	return nil
}
