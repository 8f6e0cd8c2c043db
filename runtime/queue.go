package runtime

import (
	"slices"

	"github.com/agentd-dev/agentd/runtime/task"
)

// fairQueue is tasks that wait for a slot: the teams in turn, within a team the oldest first (R7). It is a hint in
// memory: the store knows what is unfinished.
type fairQueue struct {
	turns  []string // teams that have somebody waiting, the next one first
	byTeam map[string][]task.ID
	teamOf map[task.ID]string // of all that wait
	places map[task.ID]int    // of all that wait, from 1; nil: to be counted anew
}

func newFairQueue() fairQueue {
	return fairQueue{byTeam: map[string][]task.ID{}, teamOf: map[task.ID]string{}}
}

// push adds a task, unless it waits already.
func (q *fairQueue) push(team string, id task.ID) {
	if _, waits := q.teamOf[id]; waits {
		return
	}
	if len(q.byTeam[team]) == 0 {
		q.turns = append(q.turns, team)
	}
	q.byTeam[team], q.teamOf[id], q.places = append(q.byTeam[team], id), team, nil
}

// pop takes the next task and its team; the queue must not be empty.
func (q *fairQueue) pop() (team string, id task.ID) {
	team = q.turns[0]
	q.turns, q.places = q.turns[1:], nil
	id = q.byTeam[team][0]
	delete(q.teamOf, id)
	if rest := q.byTeam[team][1:]; len(rest) > 0 {
		q.byTeam[team] = rest
		q.turns = append(q.turns, team)
	} else {
		delete(q.byTeam, team)
	}
	return team, id
}

// remove takes a task out, wherever it stands.
func (q *fairQueue) remove(id task.ID) {
	team, waits := q.teamOf[id]
	if !waits {
		return
	}
	delete(q.teamOf, id)
	q.places = nil
	q.byTeam[team] = slices.DeleteFunc(q.byTeam[team], func(waiting task.ID) bool { return waiting == id })
	if len(q.byTeam[team]) == 0 {
		delete(q.byTeam, team)
		q.turns = slices.DeleteFunc(q.turns, func(t string) bool { return t == team })
	}
}

// len is how many wait.
func (q *fairQueue) len() int { return len(q.teamOf) }

// position is a task's place, 1 for the next one; 0 when it does not wait. Who asks for many asks for most of them between
// two changes, so all are counted at once.
func (q *fairQueue) position(id task.ID) int {
	if q.places == nil {
		q.places = q.count()
	}
	return q.places[id]
}

// count goes through the queue in the order in which it will be served.
func (q *fairQueue) count() map[task.ID]int {
	places := map[task.ID]int{}
	turns := slices.Clone(q.turns)
	for round := 0; len(turns) > 0; round++ {
		for _, team := range turns {
			places[q.byTeam[team][round]] = len(places) + 1
		}
		turns = slices.DeleteFunc(turns, func(team string) bool { return len(q.byTeam[team]) == round+1 })
	}
	return places
}
