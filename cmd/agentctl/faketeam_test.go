package main

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rogpeppe/go-internal/testscript"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// promptOf is what a spawn asks its agent for.
func promptOf(req *agentdv1.SpawnRequest) string {
	for _, spec := range []*agentdv1.AgentSpec{req.GetSingle(), req.GetTeammate().GetAgent(), req.GetLead().GetAgent()} {
		if spec != nil {
			return spec.GetPrompt()
		}
	}
	return ""
}

// idOf is the task that a spawn makes.
func idOf(req *agentdv1.SpawnRequest) string {
	if nameOf(req) != "" {
		return "tm-1"
	}
	return "sub-1"
}

// nameOf is the name of the teammate that a spawn makes; empty for other tasks.
func nameOf(req *agentdv1.SpawnRequest) string {
	if req.GetLead() != nil {
		return leadName
	}
	return req.GetTeammate().GetName()
}

// mate is a teammate of the team shop.
func mate(id, name, agent string, state agentdv1.TaskState) *agentdv1.TeammateStatus {
	task := fakeTask(state)
	task.Id, task.Name, task.Kind, task.Agent, task.Color = id, name, agentdv1.TaskKind_TASK_KIND_TEAMMATE, agent, "green"
	task.AgentId = name + "@shop"
	return &agentdv1.TeammateStatus{Name: name, AgentId: task.GetAgentId(), Task: task}
}

// lisa is idle with mail that does not wake her, and waits for the approval of her plan. The lead spawned her.
func lisa() *agentdv1.TeammateStatus {
	m := mate("tm-2", "lisa", "coder", idle)
	m.Task.SpawnedBy, m.Task.Unread, m.Task.Activity, m.Task.Incarnation = "tm-1", 2, "", 3
	m.PlanApproval, m.PlanControlId, m.ShutdownControlId = true, "c-3", "c-4"
	return m
}

// roster is the team shop: a lead, one that is idle, three that have ended.
func fakeRoster() []*agentdv1.TeammateStatus {
	done, stopped, gone := mate("tm-3", "max", "general", completed), mate("tm-4", "nina", "general", killed), mate("tm-5", "otto", "general", completed)
	done.Task.Reason, stopped.Task.Reason, gone.Task.Reason =
		agentdv1.TaskReason_TASK_REASON_DONE, agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT, agentdv1.TaskReason_TASK_REASON_DONE
	stopped.Asleep = "it ended with STOPPED_BY_CLIENT, after which only the leader or a client revives it"
	gone.Dismissed, gone.Asleep = true, "it was dismissed"
	lead := mate("tm-1", leadName, "general", running)
	lead.Task.Activity = "bash: printf '\x1b[2J'"
	return []*agentdv1.TeammateStatus{lead, lisa(), done, stopped, gone}
}

func fakeTeam() *agentdv1.Team {
	return &agentdv1.Team{
		Id: "t-1", Name: "shop", Workspace: "/w", Description: "Sells\nthings.", CreatedAt: at(0), Teammates: 2, LeadTaskId: "tm-1",
		UnreadLeader: 1, UnreadUser: 3, Usage: &agentdv1.Usage{InputTokens: 9000, OutputTokens: 1000, Steps: 12, Turns: 4, ToolCalls: 1, CostUsd: 0.25},
		Budget: &agentdv1.Budget{Steps: 100, CostUsd: 2.5},
	}
}

// inTeam refuses what is not about the team shop, named or found by the directory.
func (d *daemon) inTeam(team, workspace string) error {
	if team != "" && !strings.EqualFold(team, "shop") || team == "" && !strings.HasPrefix(workspace, "/") {
		return refusedOf(team, codes.NotFound, "TEAM_NOT_FOUND", "there is no team "+team)
	}
	return nil
}

// ask notes what was asked, for a script to look at; a mutation also under its request id.
func (d *daemon) ask(req proto.Message, requestID string) int {
	d.mu.Lock()
	d.asked = req
	d.mu.Unlock()
	if requestID == "" {
		return 0
	}
	return d.mutation(requestID)
}

// checkAsked is `asked TEXT`, on the last request about a team or a message.
func checkAsked(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value("daemon").(*daemon)
	d.mu.Lock()
	text := d.asked.(interface{ String() string }).String()
	d.mu.Unlock()
	text = strings.ReplaceAll(text, "  ", " ") // protobuf varies its spaces on purpose
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("the request has no %s: %s", args[0], text)
	}
}

func (d *daemon) GetTeam(_ context.Context, req *agentdv1.GetTeamRequest) (*agentdv1.GetTeamResponse, error) {
	return &agentdv1.GetTeamResponse{Team: fakeTeam()}, d.inTeam(req.GetTeam(), req.GetWorkspace())
}

// ListTeams has two pages.
func (d *daemon) ListTeams(_ context.Context, req *agentdv1.ListTeamsRequest) (*agentdv1.ListTeamsResponse, error) {
	if req.GetPageToken() == "" {
		return &agentdv1.ListTeamsResponse{Teams: []*agentdv1.Team{fakeTeam()}, NextPageToken: "2"}, nil
	}
	return &agentdv1.ListTeamsResponse{Teams: []*agentdv1.Team{{Id: "t-2", Name: "default", CreatedAt: at(1)}}}, nil
}

func (d *daemon) CreateTeam(_ context.Context, req *agentdv1.CreateTeamRequest) (*agentdv1.CreateTeamResponse, error) {
	d.ask(req, req.GetRequestId())
	if req.GetName() == "shop" {
		return nil, refusedOf("shop", codes.AlreadyExists, "NAME_TAKEN", "there is a team shop")
	}
	return &agentdv1.CreateTeamResponse{Team: &agentdv1.Team{
		Id: "t-3", Name: req.GetName(), Workspace: req.GetWorkspace(), Description: req.GetDescription(), Budget: req.GetBudget(), CreatedAt: at(2)}}, nil
}

func (d *daemon) UpdateTeam(_ context.Context, req *agentdv1.UpdateTeamRequest) (*agentdv1.UpdateTeamResponse, error) {
	d.ask(req, req.GetRequestId())
	team := fakeTeam()
	if req.Name != nil {
		if req.GetTeam() == "shop" {
			return nil, refusedOf("shop", codes.FailedPrecondition, "TEAM_IN_USE", "the team shop has living teammates")
		}
		team.Name = req.GetName()
	}
	return &agentdv1.UpdateTeamResponse{Team: team}, nil
}

// DeleteTeam is lost at first.
func (d *daemon) DeleteTeam(_ context.Context, req *agentdv1.DeleteTeamRequest) (*agentdv1.DeleteTeamResponse, error) {
	if d.ask(req, req.GetRequestId()) == 1 {
		return nil, status.Error(codes.Unavailable, "going down")
	}
	return &agentdv1.DeleteTeamResponse{}, d.inTeam(req.GetTeam(), "")
}

// ListTeammates has two pages, or one that is large enough when it is asked for.
func (d *daemon) ListTeammates(_ context.Context, req *agentdv1.ListTeammatesRequest) (*agentdv1.ListTeammatesResponse, error) {
	d.ask(req, "")
	if err := d.inTeam(req.GetTeam(), req.GetWorkspace()); err != nil {
		return nil, err
	}
	all := fakeRoster()
	switch {
	case int(req.GetPageSize()) >= len(all):
		return &agentdv1.ListTeammatesResponse{Teammates: all}, nil
	case req.GetPageToken() == "":
		return &agentdv1.ListTeammatesResponse{Teammates: all[:2], NextPageToken: "2"}, nil
	}
	return &agentdv1.ListTeammatesResponse{Teammates: all[2:]}, nil
}

// named is a teammate of the team shop.
func named(name string) (*agentdv1.TeammateStatus, error) {
	all := fakeRoster()
	i := slices.IndexFunc(all, func(m *agentdv1.TeammateStatus) bool { return strings.EqualFold(m.GetName(), name) })
	if i < 0 {
		return nil, refusedOf(name, codes.NotFound, "RECIPIENT_NOT_FOUND", "there is no teammate "+name)
	}
	return all[i], nil
}

func (d *daemon) GetTeammate(_ context.Context, req *agentdv1.GetTeammateRequest) (*agentdv1.GetTeammateResponse, error) {
	if err := d.inTeam(req.GetTeam(), req.GetWorkspace()); err != nil {
		return nil, err
	}
	m, err := named(req.GetName())
	return &agentdv1.GetTeammateResponse{Teammate: m}, err
}

func (d *daemon) DismissTeammate(_ context.Context, req *agentdv1.DismissTeammateRequest) (*agentdv1.DismissTeammateResponse, error) {
	d.ask(req, req.GetRequestId())
	m, err := named(req.GetName())
	if err != nil {
		return nil, err
	}
	m.Dismissed, m.Task.State, m.Task.Reason = true, killed, agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT
	return &agentdv1.DismissTeammateResponse{Teammate: m}, nil
}

// receipt sends one of a message to somebody.
func receipt(stream grpc.ServerStreamingServer[agentdv1.SendMessageResponse], to string, state agentdv1.ReceiptState, r *agentdv1.SendMessageResponse) {
	r.MessageId, r.Recipient, r.State = "m-1", to, state
	_ = stream.Send(r)
}

func (d *daemon) SendMessage(req *agentdv1.SendMessageRequest, stream grpc.ServerStreamingServer[agentdv1.SendMessageResponse]) error {
	calls := d.ask(req, req.GetRequestId())
	to := req.GetTo()
	switch _, err := named(to); {
	case to == everyone:
		return d.broadcast(req, stream, calls)
	case strings.HasPrefix(to, "sh-"), strings.HasPrefix(to, "grp-"):
		return refusedOf(to, codes.FailedPrecondition, "NOT_A_RECIPIENT", to+" takes no mail")
	case to == "otto":
		return refusedOf(to, codes.FailedPrecondition, "NOT_REVIVABLE", "teammate otto has ended: it was dismissed")
	case err != nil && to != "sub-1" && to != "user":
		return refused(codes.NotFound, "RECIPIENT_NOT_FOUND", "nobody is called "+to+"; nearest: sub-1")
	}
	more := &agentdv1.SendMessageResponse{}
	if req.GetShutdownRequest() != nil {
		more.ControlId = "c-9"
	}
	receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED, more)
	switch until := req.GetUntil(); {
	case req.GetText() == "too late":
		receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE, &agentdv1.SendMessageResponse{Error: to + " has ended"})
		return nil
	case req.GetTtl() != nil:
		receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_EXPIRED, &agentdv1.SendMessageResponse{Error: "its time was over"})
		return nil
	case until == agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED:
		return nil
	}
	receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_WAKING, &agentdv1.SendMessageResponse{})
	if req.GetText() == "lost at first" && calls == 1 {
		return status.Error(codes.Unavailable, "going down")
	}
	receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED, &agentdv1.SendMessageResponse{Seq: 12})
	if req.GetUntil() == agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED {
		receipt(stream, to, agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED, &agentdv1.SendMessageResponse{Seq: 12, Text: "It is\n\x1b[31mgreen."})
	}
	return nil
}

// broadcast reaches two teammates, one of them after a break.
func (d *daemon) broadcast(req *agentdv1.SendMessageRequest, stream grpc.ServerStreamingServer[agentdv1.SendMessageResponse], calls int) error {
	receipt(stream, leadName, agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED, &agentdv1.SendMessageResponse{})
	receipt(stream, "lisa", agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED, &agentdv1.SendMessageResponse{})
	if req.GetUntil() == agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED {
		return nil
	}
	receipt(stream, leadName, agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED, &agentdv1.SendMessageResponse{Seq: 7})
	if calls == 1 {
		return status.Error(codes.Unavailable, "going down")
	}
	receipt(stream, "lisa", agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE, &agentdv1.SendMessageResponse{Error: "lisa was dismissed"})
	return nil
}

// fakeMail is a leader inbox.
func fakeMail() []*agentdv1.InboxMessage {
	mail := func(pos uint64, from, to string, kind agentdv1.MessageKind, summary, text string) *agentdv1.InboxMessage {
		return &agentdv1.InboxMessage{Pos: pos, MessageId: "m-" + from, From: from, To: to, Kind: kind, Summary: summary, Text: text,
			Time: at(int(pos)), Acked: pos <= 3, Taken: pos <= 4}
	}
	const none, text = "", agentdv1.MessageKind_MESSAGE_KIND_TEXT
	all := []*agentdv1.InboxMessage{
		mail(2, "lisa", leadName, text, none, "The parser is\n\x1b[31mdone."),
		mail(3, "lisa", "user", text, "a question", "Which licence?"),
		mail(5, "daemon", leadName, agentdv1.MessageKind_MESSAGE_KIND_IDLE, none, "The parser is done."),
		mail(6, "daemon", leadName, agentdv1.MessageKind_MESSAGE_KIND_ENDED, none, none),
		mail(8, "lisa", leadName, agentdv1.MessageKind_MESSAGE_KIND_PLAN_REQUEST, none, "1. Read."),
		mail(9, "max", leadName, agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_RESPONSE, none, "I am not done."),
		mail(11, "daemon", leadName, agentdv1.MessageKind_MESSAGE_KIND_RETURNED, "max can't be woken", "Hello max."),
	}
	all[2].TaskId, all[2].Seq, all[3].TaskId = "tm-2", 9, "tm-3"
	all[4].ControlId, all[5].ControlId, all[6].InReplyTo = "c-3", "c-4", "m-7"
	return all
}

// ReadInbox breaks once in the middle when it is followed, and ends for good after the last message.
func (d *daemon) ReadInbox(req *agentdv1.ReadInboxRequest, stream grpc.ServerStreamingServer[agentdv1.ReadInboxResponse]) error {
	d.ask(req, "")
	if err := d.inTeam(req.GetTeam(), req.GetWorkspace()); err != nil {
		return err
	}
	all := fakeMail()
	if n := int(req.GetTail()); n > 0 {
		all = all[len(all)-n:]
	}
	for _, m := range all {
		if m.GetPos() <= req.GetAfter() || req.GetUnread() && m.GetAcked() {
			continue
		}
		if req.GetFollow() && m.GetPos() > 5 && req.GetAfter() < 5 {
			return status.Error(codes.Unavailable, "going down")
		}
		_ = stream.Send(&agentdv1.ReadInboxResponse{Item: &agentdv1.ReadInboxResponse_Heartbeat{Heartbeat: &agentdv1.Heartbeat{Time: at(0)}}})
		_ = stream.Send(&agentdv1.ReadInboxResponse{Item: &agentdv1.ReadInboxResponse_Message{Message: m}})
	}
	if req.GetFollow() {
		return refused(codes.PermissionDenied, "PERMISSION_DENIED", "the script is over")
	}
	return nil
}

func (d *daemon) AckInbox(_ context.Context, req *agentdv1.AckInboxRequest) (*agentdv1.AckInboxResponse, error) {
	d.ask(req, req.GetRequestId())
	left := int32(0)
	for _, m := range fakeMail() {
		if m.GetPos() > req.GetUpTo() && !m.GetAcked() {
			left++
		}
	}
	return &agentdv1.AckInboxResponse{Unread: left}, d.inTeam(req.GetTeam(), req.GetWorkspace())
}
