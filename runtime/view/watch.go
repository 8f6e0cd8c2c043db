package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
)

// Event is one thing that happened, with the name of its team.
type Event struct {
	journal.Event
	TeamName string
}

// News is one item of a watch: a cursor that resumes after it, and an event or a gap, if any.
type News struct {
	Cursor string
	Event  *Event // nil: none
	Gap    string // why events are missing before what follows; empty: they are not
}

// Watch sends what happens in a team, or, when none is named, in all teams: each event once, in order within a team, from
// the cursor on, over restarts too (O3). The first item is a cursor alone, that of now when none was given, or a gap; so the
// reader knows at once that it watches; while nothing happens it gets a new one every hour. What happened is read from the
// store, at the pace of send. It returns send's error, ctx's cause, or why the watch can't be served.
func (v *View) Watch(ctx context.Context, team, cursor string, send func(News) error) error {
	w := &watch{view: v, low: map[string]journal.Rev{}, sink: send}
	if team != "" {
		var err error
		if w.scope, err = v.journal.TeamByName(ctx, team); err != nil {
			return err
		}
	}
	if err := w.begin(cursor); err != nil {
		return err
	}
	for {
		more := v.journal.FollowFeed(w.scope.ID)
		if err := w.advance(ctx); err != nil {
			return err
		}
		if err := w.await(ctx, more); err != nil {
			return err
		}
	}
}

// freshEvery is how often a watcher gets a new cursor while nothing happens, lest its last one become too old to resume.
const freshEvery = time.Hour

// watch is one reader of one team's feed, or of all.
type watch struct {
	view  *View
	scope roster.Team // zero: all
	at    place
	low   map[string]journal.Rev // by team: all up to there is earlier than at.after
	sink  func(News) error
}

// begin takes the cursor, or makes one, and tells the reader where the watch begins.
func (w *watch) begin(cursor string) error {
	j := w.view.journal
	w.at = w.from(j.Settled(w.scope.ID))
	if cursor == "" {
		return w.send(News{})
	}
	at, ours, err := parsePlace(cursor, j.StoreID())
	if err != nil {
		return err
	}
	gap := ""
	switch {
	case !ours:
		gap = "the cursor is not of this daemon's store"
	case at.team != w.at.team:
		return errdefs.BadField("cursor", "belongs to a watch of other teams")
	case at.after < j.FeedKept():
		gap = tooOld
	case at.life != w.at.life && at.upTo > j.Begun():
		gap = "the daemon's clock was set back: what happened since may look as if it had been seen"
	default:
		w.at = at
	}
	return w.send(News{Gap: gap})
}

// await waits until there may be more.
func (w *watch) await(ctx context.Context, more <-chan struct{}) error {
	fresh := time.NewTimer(freshEvery)
	defer fresh.Stop()
	for {
		select {
		case <-more:
			return nil
		case <-fresh.C:
			fresh.Reset(freshEvery)
			if err := w.advance(ctx); err != nil {
				return err
			}
			if err := w.send(News{}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *watch) send(n News) error {
	n.Cursor = w.at.String(w.view.journal.StoreID())
	return w.sink(n)
}

// tooOld is the gap of who comes, or reads, too late.
const tooOld = "what was seen last is older than the 7 days that events are kept"

// from is the place of a watch that has seen all up to a tick.
func (w *watch) from(now journal.Tick) place {
	return place{team: teamNumber(w.scope.ID), after: now, upTo: now, life: w.view.journal.Life()}
}

// advance sends all that is settled by now. First it ends the round that the cursor was cut out of, if it was.
func (w *watch) advance(ctx context.Context) error {
	if w.at.after < w.view.journal.FeedKept() { // the reader stalled for days
		w.at = w.from(w.view.journal.Settled(w.scope.ID))
		if err := w.send(News{Gap: tooOld}); err != nil {
			return err
		}
	}
	if w.at.upTo > w.at.after {
		if err := w.round(ctx); err != nil {
			return err
		}
	}
	w.at.upTo = w.view.journal.Settled(w.scope.ID)
	return w.round(ctx)
}

// round sends what happened later than at.after and up to at.upTo, one team after the other. So a cursor need not hold
// the positions of all teams: those before at.reading are at upTo, those behind it still at after.
func (w *watch) round(ctx context.Context) error {
	teams := []string{w.scope.ID}
	if w.scope.ID == "" {
		teams = w.view.journal.Stirred(w.at.after)
		slices.SortFunc(teams, func(a, b string) int { return cmp.Compare(teamNumber(a), teamNumber(b)) })
	}
	for _, id := range teams {
		n := teamNumber(id)
		if n < w.at.reading {
			continue
		}
		if n > w.at.reading {
			w.at.reading, w.at.pos = n, 0
		}
		if err := w.readTeam(ctx, id); err != nil {
			return err
		}
	}
	w.at = w.from(w.at.upTo)
	return nil
}

// readTeam sends a team's part of the round, behind at.pos.
func (w *watch) readTeam(ctx context.Context, id string) error {
	j := w.view.journal
	team, err := j.Team(ctx, id)
	if errdefs.Is(err, errdefs.RecordCorrupt) || errdefs.Is(err, errdefs.TeamNotFound) {
		return nil // lost (D7): the rest is told
	}
	if err != nil {
		return err
	}
	behind, whole := w.at.pos, w.at.pos == 0
	if whole {
		if behind, err = w.lowest(ctx, id); err != nil {
			return err
		}
	}
	for e, err := range j.Feed(ctx, id, behind) {
		switch {
		case err != nil:
			return err
		case e.Tick > w.at.upTo+journal.FeedSlack:
			return nil // what is left is later still
		case e.Tick > w.at.upTo:
			whole = false // the next round comes back to it
			continue
		}
		if whole {
			w.low[id] = e.Pos
		}
		if e.Tick <= w.at.after {
			continue
		}
		w.at.pos = e.Pos
		if err := w.send(News{Event: &Event{Event: e, TeamName: team.Name}}); err != nil {
			return err
		}
	}
	return nil
}

// lowest is where to read a team's feed from for what is later than at.after.
func (w *watch) lowest(ctx context.Context, team string) (journal.Rev, error) {
	if pos, known := w.low[team]; known {
		return pos, nil
	}
	pos, err := w.view.journal.FeedBefore(ctx, team, w.at.after)
	if err == nil {
		w.low[team] = pos
	}
	return pos, err
}
