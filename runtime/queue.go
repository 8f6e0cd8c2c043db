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
}

func newFairQueue() fairQueue { return fairQueue{byTeam: map[string][]task.ID{}} }

// push adds a task, unless it waits already.
func (q *fairQueue) push(team string, id task.ID) {
	waiting := q.byTeam[team]
	if slices.Contains(waiting, id) {
		return
	}
	if len(waiting) == 0 {
		q.turns = append(q.turns, team)
	}
	q.byTeam[team] = append(waiting, id)
}

// pop takes the next task; the queue must not be empty.
func (q *fairQueue) pop() task.ID {
	team := q.turns[0]
	q.turns = q.turns[1:]
	id := q.byTeam[team][0]
	if rest := q.byTeam[team][1:]; len(rest) > 0 {
		q.byTeam[team] = rest
		q.turns = append(q.turns, team)
	} else {
		delete(q.byTeam, team)
	}
	return id
}

// remove takes a task out, wherever it stands.
func (q *fairQueue) remove(id task.ID) {
	for team, waiting := range q.byTeam {
		i := slices.Index(waiting, id)
		if i < 0 {
			continue
		}
		if q.byTeam[team] = slices.Delete(waiting, i, i+1); len(q.byTeam[team]) == 0 {
			delete(q.byTeam, team)
			q.turns = slices.DeleteFunc(q.turns, func(t string) bool { return t == team })
		}
		return
	}
}

// len is how many wait.
func (q *fairQueue) len() int {
	n := 0
	for _, waiting := range q.byTeam {
		n += len(waiting)
	}
	return n
}

// position is a task's place, 1 for the next one; 0 when it does not wait.
func (q *fairQueue) position(id task.ID) int {
	for turn, team := range q.turns {
		i := slices.Index(q.byTeam[team], id)
		if i < 0 {
			continue
		}
		before := 0
		for other, name := range q.turns {
			rounds := i // whole rounds before its own
			if other < turn {
				rounds++
			}
			before += min(rounds, len(q.byTeam[name]))
		}
		return before + 1
	}
	return 0
}
