package server

import (
	"cmp"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// unknownValue is the error of an enum field whose number this daemon does not know.
func unknownValue(field string, number int32) error {
	return errdefs.BadField(field, "the value %d is not known", number)
}

// valueOf is the value that a number of an enum stands for; the zero value when nothing is said.
func valueOf[V any, W ~int32](field string, w W, all []V, toWire func(V) W) (none V, err error) {
	if w == 0 {
		return none, nil
	}
	for _, v := range all {
		if toWire(v) == w {
			return v, nil
		}
	}
	return none, unknownValue(field, int32(w))
}

func kindToWire(k task.Kind) agentdv1.TaskKind {
	switch k {
	case task.Subagent:
		return agentdv1.TaskKind_TASK_KIND_SUBAGENT
	case task.Shell:
		return agentdv1.TaskKind_TASK_KIND_SHELL
	case task.Group:
		return agentdv1.TaskKind_TASK_KIND_GROUP
	case task.Teammate:
		return agentdv1.TaskKind_TASK_KIND_TEAMMATE
	}
	return agentdv1.TaskKind_TASK_KIND_UNSPECIFIED
}

// kindOf is a kind to filter by; 0: any.
func kindOf(k agentdv1.TaskKind) (task.Kind, error) {
	return valueOf("kind", k, task.Kinds(), kindToWire)
}

func streamToWire(s task.Stream) agentdv1.OutputStream {
	switch s {
	case task.Stdout:
		return agentdv1.OutputStream_OUTPUT_STREAM_STDOUT
	case task.Stderr:
		return agentdv1.OutputStream_OUTPUT_STREAM_STDERR
	}
	return agentdv1.OutputStream_OUTPUT_STREAM_UNSPECIFIED
}

func stateToWire(s task.State) agentdv1.TaskState {
	switch s {
	case task.Queued:
		return agentdv1.TaskState_TASK_STATE_QUEUED
	case task.Running:
		return agentdv1.TaskState_TASK_STATE_RUNNING
	case task.Waiting:
		return agentdv1.TaskState_TASK_STATE_WAITING
	case task.Stopping:
		return agentdv1.TaskState_TASK_STATE_STOPPING
	case task.Completed:
		return agentdv1.TaskState_TASK_STATE_COMPLETED
	case task.Failed:
		return agentdv1.TaskState_TASK_STATE_FAILED
	case task.Killed:
		return agentdv1.TaskState_TASK_STATE_KILLED
	case task.Idle:
		return agentdv1.TaskState_TASK_STATE_IDLE
	}
	return agentdv1.TaskState_TASK_STATE_UNSPECIFIED
}

// stateOf is a state to filter by; 0: any.
func stateOf(s agentdv1.TaskState) (task.State, error) {
	return valueOf("state", s, task.States(), stateToWire)
}

func reasonToWire(r task.Reason) agentdv1.TaskReason {
	switch r {
	case task.Done:
		return agentdv1.TaskReason_TASK_REASON_DONE
	case task.StoppedByClient:
		return agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT
	case task.ParentEnded:
		return agentdv1.TaskReason_TASK_REASON_PARENT_ENDED
	case task.MaxSteps:
		return agentdv1.TaskReason_TASK_REASON_MAX_STEPS
	case task.BudgetExceeded:
		return agentdv1.TaskReason_TASK_REASON_BUDGET_EXCEEDED
	case task.Timeout:
		return agentdv1.TaskReason_TASK_REASON_TIMEOUT
	case task.ModelError:
		return agentdv1.TaskReason_TASK_REASON_MODEL_ERROR
	case task.ContextOverflow:
		return agentdv1.TaskReason_TASK_REASON_CONTEXT_OVERFLOW
	case task.NoProgress:
		return agentdv1.TaskReason_TASK_REASON_NO_PROGRESS
	case task.Panic:
		return agentdv1.TaskReason_TASK_REASON_PANIC
	case task.SpawnFailed:
		return agentdv1.TaskReason_TASK_REASON_SPAWN_FAILED
	case task.CrashLoop:
		return agentdv1.TaskReason_TASK_REASON_CRASH_LOOP
	case task.Interrupted:
		return agentdv1.TaskReason_TASK_REASON_INTERRUPTED
	case task.ExitNonzero:
		return agentdv1.TaskReason_TASK_REASON_EXIT_NONZERO
	case task.ContractViolation:
		return agentdv1.TaskReason_TASK_REASON_CONTRACT_VIOLATION
	case task.AcceptanceFailed:
		return agentdv1.TaskReason_TASK_REASON_ACCEPTANCE_FAILED
	case task.Shutdown:
		return agentdv1.TaskReason_TASK_REASON_SHUTDOWN
	}
	return agentdv1.TaskReason_TASK_REASON_UNSPECIFIED
}

func messageKindToWire(k task.MessageKind) agentdv1.MessageKind {
	switch k {
	case task.Text:
		return agentdv1.MessageKind_MESSAGE_KIND_TEXT
	case task.Ended:
		return agentdv1.MessageKind_MESSAGE_KIND_ENDED
	case task.WentIdle:
		return agentdv1.MessageKind_MESSAGE_KIND_IDLE
	case task.Returned:
		return agentdv1.MessageKind_MESSAGE_KIND_RETURNED
	case task.ShutdownRequest:
		return agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_REQUEST
	case task.ShutdownResponse:
		return agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_RESPONSE
	case task.PlanRequest:
		return agentdv1.MessageKind_MESSAGE_KIND_PLAN_REQUEST
	case task.PlanResponse:
		return agentdv1.MessageKind_MESSAGE_KIND_PLAN_RESPONSE
	case task.Remark:
		return agentdv1.MessageKind_MESSAGE_KIND_NOTICE
	}
	return agentdv1.MessageKind_MESSAGE_KIND_UNSPECIFIED
}

func rosterEventToWire(e roster.Event) agentdv1.RosterEvent {
	switch e {
	case roster.Joined:
		return agentdv1.RosterEvent_ROSTER_EVENT_JOINED
	case roster.Dismissed:
		return agentdv1.RosterEvent_ROSTER_EVENT_DISMISSED
	}
	return agentdv1.RosterEvent_ROSTER_EVENT_UNSPECIFIED
}

func levelToWire(l task.StopLevel) agentdv1.StopLevel {
	switch l {
	case task.WrapUp:
		return agentdv1.StopLevel_STOP_LEVEL_WRAP_UP
	case task.Cancel:
		return agentdv1.StopLevel_STOP_LEVEL_CANCEL
	case task.Kill:
		return agentdv1.StopLevel_STOP_LEVEL_KILL
	}
	return agentdv1.StopLevel_STOP_LEVEL_UNSPECIFIED
}

// levelOf is how hard to stop; otherwise when nothing is said.
func levelOf(l agentdv1.StopLevel, otherwise task.StopLevel) (task.StopLevel, error) {
	level, err := valueOf("level", l, []task.StopLevel{task.WrapUp, task.Cancel, task.Kill}, levelToWire)
	return cmp.Or(level, otherwise), err
}

func receiptStateToWire(s mailbox.State) agentdv1.ReceiptState {
	switch s {
	case mailbox.Accepted:
		return agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED
	case mailbox.Delivered:
		return agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED
	case mailbox.Undeliverable:
		return agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE
	case mailbox.Waking:
		return agentdv1.ReceiptState_RECEIPT_STATE_WAKING
	case mailbox.Answered:
		return agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED
	case mailbox.Expired:
		return agentdv1.ReceiptState_RECEIPT_STATE_EXPIRED
	case mailbox.Superseded:
		return agentdv1.ReceiptState_RECEIPT_STATE_SUPERSEDED
	}
	return agentdv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED
}

// untilOf is the receipt to wait for; ACCEPTED when nothing is said.
func untilOf(s agentdv1.ReceiptState) (mailbox.State, error) {
	switch s {
	case agentdv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED, agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED:
		return mailbox.Accepted, nil
	case agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED:
		return mailbox.Delivered, nil
	case agentdv1.ReceiptState_RECEIPT_STATE_WAKING:
		return mailbox.Waking, nil
	case agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED:
		return mailbox.Answered, nil
	case agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE, agentdv1.ReceiptState_RECEIPT_STATE_EXPIRED,
		agentdv1.ReceiptState_RECEIPT_STATE_SUPERSEDED:
		return 0, errdefs.BadField("until",
			"must be ACCEPTED, WAKING, DELIVERED or ANSWERED; what ends a message otherwise ends the stream anyway")
	}
	return 0, unknownValue("until", int32(s))
}

// deliveryOf is when a message is taken; at the next step boundary when nothing is said.
func deliveryOf(d agentdv1.Delivery) (mailbox.Delivery, error) {
	switch d {
	case agentdv1.Delivery_DELIVERY_UNSPECIFIED, agentdv1.Delivery_DELIVERY_STEP:
		return mailbox.AtStep, nil
	case agentdv1.Delivery_DELIVERY_TURN:
		return mailbox.AtTurn, nil
	case agentdv1.Delivery_DELIVERY_INTERRUPT:
		return mailbox.Interrupt, nil
	}
	return 0, unknownValue("delivery", int32(d))
}

// waitOf tells what to wait for: the terminal state, or that the teammate is idle.
func waitOf(w agentdv1.WaitFor) (terminal, idle bool, err error) {
	switch w {
	case agentdv1.WaitFor_WAIT_FOR_UNSPECIFIED:
		return false, false, nil
	case agentdv1.WaitFor_WAIT_FOR_TERMINAL:
		return true, false, nil
	case agentdv1.WaitFor_WAIT_FOR_IDLE:
		return false, true, nil
	}
	return false, false, unknownValue("wait_for", int32(w))
}
