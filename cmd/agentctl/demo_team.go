package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// team shows a lead and two teammates who write to each other, and one of them coming back after its end and the daemon's.
func (s *stage) team(ctx context.Context) error {
	if err := s.lead(ctx); err != nil {
		return err
	}
	rita, err := s.teammate(ctx, "rita")
	if err != nil {
		return err
	}
	if err := s.endOf(ctx, rita); err != nil {
		return err
	}
	if err := s.restart(ctx); err != nil {
		return err
	}
	return s.revival(ctx, rita.GetTask().GetId())
}

// lead spawns the lead and follows it until all is quiet.
func (s *stage) lead(ctx context.Context) error {
	prompt := "Have the fix in cart.sh reviewed, and written down in NOTES.md."
	s.say("Now a team. A lead is asked: %s", prompt)
	req := &agentdv1.SpawnRequest{
		Workspace: s.workspace(),
		Mode: &agentdv1.SpawnRequest_Lead{Lead: &agentdv1.Lead{
			Agent: &agentdv1.AgentSpec{Prompt: prompt}, UntilQuiet: true,
		}},
	}
	f := s.app.spawning(req, (&transcript{out: s.app.out}).show)
	if err := f.follow(ctx); err != nil {
		return err
	}
	if f.outcome.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED {
		return fmt.Errorf("demo: the lead ended %s", stateWord(f.outcome.GetState()))
	}
	s.say("Nobody works any more, no mail waits, so the lead is done. Its teammates sleep:")
	for _, name := range []string{"rita", "dan"} {
		mate, err := s.teammate(ctx, name)
		if err != nil {
			return err
		}
		state := mate.GetTask().GetState()
		fmt.Fprintf(s.app.out, "   %-5s %s  %s\n", name, mate.GetTask().GetId(), stateWord(state))
		if state != agentdv1.TaskState_TASK_STATE_IDLE {
			return fmt.Errorf("demo: %s is %s", name, stateWord(state))
		}
	}
	return nil
}

// teammate looks a teammate up.
func (s *stage) teammate(ctx context.Context, name string) (mate *agentdv1.TeammateStatus, err error) {
	err = s.app.attempt(ctx, func(c *client) error {
		resp, err := c.teams.GetTeammate(ctx, &agentdv1.GetTeammateRequest{Workspace: s.workspace(), Name: name})
		mate = resp.GetTeammate()
		return err
	})
	return mate, err
}

// endOf stops a teammate.
func (s *stage) endOf(ctx context.Context, mate *agentdv1.TeammateStatus) error {
	s.say("rita is stopped. She has ended, with her life 1.")
	return s.app.attempt(ctx, func(c *client) error {
		stream, err := c.agents.TaskStop(ctx, &agentdv1.TaskStopRequest{
			TaskId: mate.GetTask().GetId(), Level: agentdv1.StopLevel_STOP_LEVEL_KILL,
		})
		return each(stream, err, func(*agentdv1.TaskStopResponse) {})
	})
}

// revival writes to the teammate that has ended.
func (s *stage) revival(ctx context.Context, id string) error {
	question := "Who wrote the note, and is it right?"
	s.say("A message to her: %s", question)
	answer, err := s.ask(ctx, "rita", question)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.app.out, "   rita: %s\n", answer)
	mate, err := s.teammate(ctx, "rita")
	if err != nil {
		return err
	}
	if task := mate.GetTask(); task.GetId() != id || task.GetIncarnation() != 2 || !strings.Contains(answer, "Dan wrote it") {
		return fmt.Errorf("demo: rita is task %s in life %d", task.GetId(), task.GetIncarnation())
	}
	mails, err := s.mailOnce(ctx)
	if err != nil {
		return err
	}
	s.say("She is the same task, %s, in her life 2, and remembers the first. Each of the %d messages stands in one transcript, once.",
		id, mails)
	return nil
}

// ask sends a message and gives the answer of the turn that took it.
func (s *stage) ask(ctx context.Context, to, text string) (answer string, err error) {
	err = s.app.attempt(ctx, func(c *client) error {
		stream, err := c.agents.SendMessage(ctx, &agentdv1.SendMessageRequest{
			Workspace: s.workspace(), To: to, Body: &agentdv1.SendMessageRequest_Text{Text: text},
			Until: agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED,
		})
		return each(stream, err, func(r *agentdv1.SendMessageResponse) {
			fmt.Fprintf(s.app.out, "   %s\n", strings.TrimPrefix(r.GetState().String(), "RECEIPT_STATE_"))
			answer = r.GetText()
		})
	})
	return answer, err
}

// mailOnce counts the messages in the transcripts of the team, each of which must be there once.
func (s *stage) mailOnce(ctx context.Context) (mails int, err error) {
	seen := map[string]int{}
	for _, name := range []string{"team-lead", "rita", "dan"} {
		mate, err := s.teammate(ctx, name)
		if err != nil {
			return 0, err
		}
		entries, err := s.stored(ctx, mate.GetTask().GetId())
		if err != nil {
			return 0, err
		}
		for _, entry := range entries {
			if id := entry.GetInput().GetMessageId(); strings.HasPrefix(id, "m-") {
				seen[id]++
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			return 0, fmt.Errorf("demo: the message %s was delivered %d times", id, n)
		}
	}
	if len(seen) < 5 {
		return 0, errors.New("demo: messages are missing")
	}
	return len(seen), nil
}

// stored reads a transcript as it is now.
func (s *stage) stored(ctx context.Context, id string) ([]*agentdv1.Entry, error) {
	var entries []*agentdv1.Entry
	err := s.app.attempt(ctx, func(c *client) error {
		entries = nil
		stream, err := c.teams.ExportTranscript(ctx, &agentdv1.ExportTranscriptRequest{TaskId: id})
		return each(stream, err, func(r *agentdv1.ExportTranscriptResponse) {
			if r.GetEntry() != nil {
				entries = append(entries, r.GetEntry())
			}
		})
	})
	return entries, err
}

// each reads a stream to its end.
func each[R any](stream grpc.ServerStreamingClient[R], err error, take func(*R)) error {
	for err == nil {
		var r *R
		if r, err = stream.Recv(); err == nil {
			take(r)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
