package journal

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// feedLog is the log of what happened in a team.
const feedLog = "feed"

// Tick is a place in the one order of what happened in all teams (O3): Unix nanoseconds when it was handed to the store,
// each given once. What follows from something else that happened has a later tick.
type Tick int64

// Time is when it happened.
func (t Tick) Time() time.Time { return time.Unix(0, int64(t)) }

func tickOf(t time.Time) Tick { return Tick(t.UnixNano()) }

// FeedSlack bounds how much later than a row in front of it a row of a feed may have been stamped: batches of one team
// that are committed at the same time land in any order.
const FeedSlack = Tick(time.Minute)

// maxAhead is how far the newest tick may be ahead of the clock at a start and still be gone on from. Beyond, the clock
// was wrong then.
const maxAhead = time.Hour

// Event is one thing that happened, as a feed tells it.
type Event struct {
	Pos       Rev // in the team's feed
	Tick      Tick
	TaskID    task.ID
	State     *task.StateChange // its state changed, or, from none, it was made
	MessageID string            // it was sent a message; without a task: to the leader inbox
	Roster    *RosterChange
}

// RosterChange is one change of a team's roster.
type RosterChange struct {
	Name  string
	Event roster.Event
}

// feeds gives the ticks and knows which of them may still land.
type feeds struct {
	stall *stall
	begun Tick // all that are given in this life are later

	mu      sync.Mutex
	last    Tick            // newest that was given
	newest  map[string]Tick // by team; a little too late where only the store knows it
	flights map[*flight]int // batches on their way; the number of the stall that ends when their unknown outcome is certain
}

// flight is a batch with feed rows on its way to the store.
type flight struct {
	team  string
	first Tick // of its rows
}

func newFeeds(s *stall) *feeds {
	return &feeds{stall: s, newest: map[string]Tick{}, flights: map[*flight]int{}}
}

// depart stamps the feed rows of a batch.
func (f *feeds) depart(team string, rows []*storev1.FeedRow, now Tick) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, now-1)
	out := &flight{team, f.last + 1}
	for _, row := range rows {
		f.last++
		row.Time = int64(f.last)
	}
	f.newest[team] = f.last
	f.flights[out] = 0
	return out
}

// arrive takes notice of how a batch fared. One of unknown outcome has begun a stall and stays on its way to the end of
// that, which may have come already.
func (f *feeds) arrive(of *flight, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stall := f.stall.current(); stall > 0 && errdefs.Is(err, errdefs.OutcomeUnknown) {
		f.flights[of] = stall
		return
	}
	delete(f.flights, of)
}

// settle forgets the batches whose unknown outcome has been certain since the end of a stall: they have landed, or never
// will.
func (f *feeds) settle(stall int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.flights, func(_ *flight, until int) bool { return until > 0 && until <= stall })
}

// given is the newest tick so far.
func (f *feeds) given() Tick {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// stamp gives the operations for a batch's feed rows; no flight when it has none.
func (j *Journal) stamp(b *Batch) ([]store.Op, *flight, error) {
	if len(b.feed) == 0 {
		return nil, nil, nil
	}
	out := j.feeds.depart(b.team, b.feed, tickOf(j.now()))
	var ops []store.Op
	for _, row := range b.feed {
		value, err := proto.Marshal(row)
		if err != nil {
			j.feeds.arrive(out, err)
			return nil, nil, errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, feedLog, "a feed row can't be encoded")
		}
		ops = append(ops, store.Op{Kind: store.Append, Name: feedLog, Value: value})
	}
	return ops, out, nil
}

// arrived lets the followers of feeds look again. Even a batch that failed may have held back what was stamped later.
func (j *Journal) arrived(of *flight, err error) {
	if of == nil {
		return
	}
	j.feeds.arrive(of, err)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.release(feedKey(of.team))
	j.release(feedKey(""))
}

// feedKey is the key of a feed's followers, or of those who follow all.
func feedKey(team string) string {
	if team == "" {
		return feedLog
	}
	return team + "/" + feedLog
}

// loadFeeds learns from the store which ticks were given. It runs at the start, when nobody else writes.
func (j *Journal) loadFeeds(ctx context.Context) error {
	teams, err := j.AllTeams(ctx)
	if err != nil {
		return err
	}
	limit := tickOf(j.now().Add(maxAhead))
	for _, team := range teams {
		tail, err := j.st.Last(ctx, part(team.ID), feedLog, 1)
		if err != nil {
			return err
		}
		for _, raw := range tail {
			e, err := eventOf(raw)
			if err != nil {
				continue // as those who read it do
			}
			j.feeds.newest[team.ID] = e.Tick + FeedSlack
			if e.Tick <= limit {
				j.feeds.last = max(j.feeds.last, e.Tick)
			}
		}
	}
	j.feeds.begun = j.Settled("")
	return nil
}

// FollowFeed gives a channel that is closed when there may be more in a team's feed; with no team, in any, those of new
// teams too. Take it before asking for Settled.
func (j *Journal) FollowFeed(team string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := feedKey(team)
	ch, ok := j.watchers[key]
	if !ok {
		ch = make(chan struct{})
		j.watchers[key] = ch
	}
	return ch
}

// Settled is the tick up to which all that happened in a team is in its feed and nothing will be added; with no team, in
// all teams. It never goes back, and while nothing happens it goes with the clock.
func (j *Journal) Settled(team string) Tick {
	f, now := j.feeds, tickOf(j.now())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last, now)
	settled := f.last
	for out := range f.flights {
		if team == "" || team == out.team {
			settled = min(settled, out.first-1)
		}
	}
	return settled
}

// Begun is where this life of the daemon began: all ticks that it gives are later, whatever the clock was before.
func (j *Journal) Begun() Tick { return j.feeds.begun }

// FeedKept is the tick from which on feeds are kept.
func (j *Journal) FeedKept() Tick { return tickOf(j.now().Add(-keepFeed)) }

// Stirred lists the teams in whose feeds there may be something later than a tick, in no order.
func (j *Journal) Stirred(after Tick) []string {
	f := j.feeds
	f.mu.Lock()
	defer f.mu.Unlock()
	var teams []string
	for team, newest := range f.newest {
		if newest > after {
			teams = append(teams, team)
		}
	}
	return teams
}

// Feed yields what happened in a team, behind a position of its feed. A damaged row is left out, and one of a time when
// the clock was wrong: it would hide what stands behind it.
func (j *Journal) Feed(ctx context.Context, team string, behind Rev) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		given := j.feeds.given()
		for raw, err := range j.st.Read(ctx, part(team), feedLog, behind) {
			var e Event
			if err == nil {
				var bad error
				if e, bad = eventOf(raw); bad != nil {
					j.log.Error("a row of a feed is damaged; those who watch do not see it", "team", team, "error", bad)
					continue
				}
			}
			if e.Tick > given { // it came meanwhile, or was never given in this life
				if given = j.feeds.given(); e.Tick > given {
					continue
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Bounds of the look back for where a tick is, in entries.
const (
	firstLookBack   = 64
	longestLookBack = 8192
)

// FeedBefore is a position of a team's feed behind which everything later than a tick stands, and as little else as can be
// found cheaply.
func (j *Journal) FeedBefore(ctx context.Context, team string, after Tick) (Rev, error) {
	for n := firstLookBack; n <= longestLookBack; n *= 4 {
		tail, err := j.st.Last(ctx, part(team), feedLog, n)
		if err != nil || len(tail) < n {
			return 0, err
		}
		for _, raw := range tail {
			e, err := eventOf(raw)
			if err != nil {
				continue
			}
			if e.Tick < after-FeedSlack {
				return e.Pos, nil
			}
			break
		}
	}
	return 0, nil
}

func eventOf(raw store.Entry) (Event, error) {
	row := &storev1.FeedRow{}
	if err := decode(feedLog, raw.Value, row); err != nil {
		return Event{}, err
	}
	e := Event{Pos: raw.Pos, Tick: Tick(row.GetTime()), TaskID: task.ID(row.GetTaskId()), MessageID: row.GetMessageId()}
	if s := row.GetState(); s != nil {
		e.State = &task.StateChange{
			From: task.State(s.GetFrom()), To: task.State(s.GetTo()), Reason: task.Reason(s.GetReason()),
		}
	}
	if r := row.GetRoster(); r != nil {
		e.Roster = &RosterChange{Name: r.GetName(), Event: roster.Event(r.GetEvent())}
	}
	return e, nil
}
