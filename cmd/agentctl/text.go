package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// clean makes text from models and tools harmless for a terminal: control characters, escape sequences and
// characters that reorder the line become visible; newlines and tabs stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r // the control picture, such as ␛
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// oneLine cleans text and puts it on one line of at most n columns.
func oneLine(s string, n int) string { return cut(strings.Join(strings.Fields(clean(s)), " "), n) }

// head cleans text and keeps its first lines, each of at most 200 columns, saying how many lines it left out.
func head(s string, lines int) string {
	all := strings.Split(strings.TrimRight(clean(s), "\n"), "\n")
	for i, line := range all[:min(lines, len(all))] {
		all[i] = cut(line, 200)
	}
	if len(all) <= lines {
		return strings.Join(all, "\n")
	}
	return fmt.Sprintf("%s\n… %d more lines", strings.Join(all[:lines], "\n"), len(all)-lines)
}

// callLine shows a tool call as one line, with the argument that says most about it.
func callLine(call *agentdv1.ToolCall) string {
	arguments := call.GetArguments()
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) == nil {
		for _, name := range []string{"command", "pattern", "path", "summary", "task", "task_id"} {
			var value string
			if json.Unmarshal(fields[name], &value) == nil && value != "" {
				arguments = value
				break
			}
		}
	}
	if arguments == "" || arguments == "{}" {
		return oneLine(call.GetName(), 100)
	}
	return oneLine(call.GetName()+": "+arguments, 100)
}

// errorLine is the message of a tool's error, which is JSON with a message in it.
func errorLine(text string) string {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal([]byte(text), &e) == nil && e.Message != "" {
		text = e.Message
	}
	return oneLine(text, 100)
}

// clock shows a time span as MM:SS, or H:MM:SS from an hour on.
func clock(d time.Duration) string {
	s := max(0, int(d.Seconds()))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// since is the time from the task's creation to t.
func since(task *agentdv1.Task, t *timestamppb.Timestamp) string {
	return clock(t.AsTime().Sub(task.GetCreatedAt().AsTime()))
}

// tokens shows a count of tokens in three digits.
func tokens(n int64) string {
	switch {
	case n >= 999_950: // what would round to 1000.0k
		return fmt.Sprintf("%.1fM tok", float64(n)/1e6)
	case n >= 1_000:
		return fmt.Sprintf("%.1fk tok", float64(n)/1e3)
	}
	return fmt.Sprintf("%d tok", n)
}

// spent is the tokens of a usage, both ways.
func spent(u *agentdv1.Usage) int64 { return u.GetInputTokens() + u.GetOutputTokens() }

// dollars is the cost of a usage; `-` where nothing has a price.
func dollars(u *agentdv1.Usage) string {
	switch cost := u.GetCostUsd(); {
	case cost == 0:
		return "-"
	case cost < 0.1:
		return fmt.Sprintf("$%.4f", cost)
	default:
		return fmt.Sprintf("$%.2f", cost)
	}
}

// usageLine is what a task consumed, such as `5 steps  3.4k tok (1.2k cached)  4 tool calls  $0.0123  00:12`.
func usageLine(u *agentdv1.Usage) string {
	parts := []string{count(u.GetSteps(), "step", "steps"), tokens(spent(u)), count(u.GetToolCalls(), "tool call", "tool calls")}
	if cached := u.GetCachedTokens(); cached > 0 {
		parts[1] += " (" + strings.TrimSuffix(tokens(cached), " tok") + " cached)"
	}
	if u.GetCostUsd() > 0 {
		parts = append(parts, dollars(u))
	}
	return strings.Join(append(parts, clock(u.GetWallTime().AsDuration())), "  ")
}

// stateWord is a state without its prefix, such as RUNNING.
func stateWord(s agentdv1.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }

// reasonWord is a reason without its prefix, such as DONE; empty for a living task.
func reasonWord(r agentdv1.TaskReason) string {
	if r == agentdv1.TaskReason_TASK_REASON_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(r.String(), "TASK_REASON_")
}

// writeIndented writes text with what follows its first line set under it.
func writeIndented(w io.Writer, first, text string) {
	indent := strings.Repeat(" ", columns(first))
	fmt.Fprintf(w, "%s%s\n", first, strings.ReplaceAll(text, "\n", "\n"+indent))
}

// count is a number of things, such as `1 step` or `2 steps`.
func count[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
