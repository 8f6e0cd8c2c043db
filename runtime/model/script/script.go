// Package script is a scripted model: rules in YAML that answer requests of OpenAI's chat completions API, over HTTP, so
// that tests and the demo go through the real adapter without a key or a network. docs/scripted-model.md describes the
// format. An answer depends on the request alone wherever that is possible: a daemon that is killed and sends the same
// history again gets the same answer. The server refuses every history that the real API, or a strict chat template,
// would refuse, and counts what it refused.
package script

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Script is a list of rules, ready to answer. It is immutable and may serve any number of servers.
type Script struct {
	rules    []rule
	fallback *rule // nil: a request that no rule matches is an error
}

// rule is when to answer, and what.
type rule struct {
	line              int
	agent, last, user *regexp.Regexp // nil matches everything
	each              *regexp.Regexp // instead of last: the calls are asked for once for each match
	step              int            // 0: any
	times             int            // 0: no limit
	status            int            // 0: a success
	retryAfter        time.Duration
	fault             fault
	faultTimes        int // 0: always
	message           string
	text, reasoning   phrase
	calls             []scriptedCall
	finish            string
	usage             *usage
	delay, chunkDelay time.Duration
	chunkSize         int // runes
}

// scriptedCall is a tool call to answer with.
type scriptedCall struct {
	id        *string // nil: made from the history
	name      string
	arguments arguments
}

// fault is how an answer goes wrong after its headers, or overflow.
type fault uint8

const (
	noFault  fault = iota
	stall          // half of the answer, then silence
	cut            // half of the answer, then the connection ends within a chunk
	truncate       // half of the answer, then a clean end without a finish reason
	inStream       // half of the answer, then an error event
	overflow       // the refusal of a history that is too long
)

func faultOf(name string) (fault, bool) {
	f, ok := map[string]fault{
		"": noFault, "stall": stall, "cut": cut, "truncate": truncate, "error": inStream, "overflow": overflow,
	}[name]
	return f, ok
}

// fileRule is a rule as the file has it.
type fileRule struct {
	Agent      string        `yaml:"agent"`
	Last       string        `yaml:"last"`
	User       string        `yaml:"user"`
	Each       string        `yaml:"each"`
	Step       int           `yaml:"step"`
	Times      int           `yaml:"times"`
	Text       string        `yaml:"text"`
	Reasoning  string        `yaml:"reasoning"`
	ToolCalls  []fileCall    `yaml:"tool_calls"`
	Finish     string        `yaml:"finish"`
	Usage      *usage        `yaml:"usage"`
	Delay      time.Duration `yaml:"delay"`
	ChunkDelay time.Duration `yaml:"chunk_delay"`
	ChunkSize  int           `yaml:"chunk_size"`
	Status     int           `yaml:"status"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Fault      string        `yaml:"fault"`
	FaultTimes int           `yaml:"fault_times"`
	Message    string        `yaml:"message"`
}

type fileCall struct {
	ID        *string   `yaml:"id"`
	Name      string    `yaml:"name"`
	Arguments yaml.Node `yaml:"arguments"`
}

type usage struct {
	Input     int64 `yaml:"input"`
	Output    int64 `yaml:"output"`
	Cached    int64 `yaml:"cached"`
	Reasoning int64 `yaml:"reasoning"`
}

// Load reads a script from a file. Errors are InvalidArgument and name the file and, where there is one, the line.
func Load(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, path, "the script %s cannot be read", path)
	}
	s, err := parse(data)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, path, "%s: %v", path, err)
	}
	return s, nil
}

// Parse reads a script. Errors are InvalidArgument and, where there is one, name the line.
func Parse(data []byte) (*Script, error) {
	s, err := parse(data)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, "script", "script: %v", err)
	}
	return s, nil
}

func parse(data []byte) (*Script, error) {
	var file struct {
		Rules   []fileRule `yaml:"rules"`
		Default *fileRule  `yaml:"default"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, tidy(err)
	}
	lines, fallback := linesOf(data)
	if len(file.Rules) == 0 && file.Default == nil {
		return nil, errors.New("it has neither rules nor a default")
	}
	s := &Script{rules: make([]rule, len(file.Rules))}
	for i, f := range file.Rules {
		r, err := compile(f, lines[i])
		if err != nil {
			return nil, err
		}
		s.rules[i] = r
	}
	if f := file.Default; f != nil {
		if f.Agent+f.Last+f.User+f.Each != "" || f.Step != 0 || f.Times != 0 {
			return nil, fmt.Errorf("line %d: the default matches everything: agent, last, each, user, step and times belong to rules", fallback)
		}
		r, err := compile(*f, fallback)
		if err != nil {
			return nil, err
		}
		s.fallback = &r
	}
	return s, nil
}

// tidy takes the names of Go types out of the library's errors.
func tidy(err error) error {
	text := regexp.MustCompile(` (in|into) (type )?(script\.|struct|time\.)[^\n]*`).ReplaceAllString(err.Error(), "")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n")
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// linesOf finds where the rules and the default begin. The data has been decoded before.
func linesOf(data []byte) (rules []int, fallback int) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		return nil, 0
	}
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i].Value {
		case "rules":
			for _, n := range pairs[i+1].Content {
				rules = append(rules, n.Line)
			}
		case "default":
			fallback = pairs[i].Line
		}
	}
	return rules, fallback
}

// compile checks a rule and prepares its patterns and templates.
func compile(f fileRule, line int) (rule, error) {
	r := rule{
		line: line, step: f.Step, times: f.Times, status: f.Status, retryAfter: f.RetryAfter, faultTimes: f.FaultTimes,
		message: f.Message, finish: f.Finish, usage: f.Usage, delay: f.Delay, chunkDelay: f.ChunkDelay, chunkSize: f.ChunkSize,
	}
	for _, part := range []func(fileRule, *rule) (field string, err error){checkRule, compilePatterns, compileAnswer} {
		if field, err := part(f, &r); err != nil {
			return rule{}, fmt.Errorf("line %d: %s: %w", line, field, err)
		}
	}
	return r, nil
}

// checkRule checks what needs no compiling. It names the field that is wrong, as the others do.
func checkRule(f fileRule, r *rule) (field string, err error) {
	if field := negative(f); field != "" {
		return field, errors.New("must not be negative")
	}
	var known bool
	if r.fault, known = faultOf(f.Fault); !known {
		return "fault", fmt.Errorf("%q is none of stall, cut, truncate, error, overflow", f.Fault)
	}
	faulty := f.Status != 0 || r.fault != noFault
	switch {
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return "status", fmt.Errorf("%d is no error; leave it out for a success", f.Status)
	case f.Status != 0 && r.fault != noFault:
		return "status", errors.New("excludes fault")
	case f.Status == 0 && f.RetryAfter != 0:
		return "retry_after", errors.New("needs a status")
	case !faulty && (f.FaultTimes != 0 || f.Message != ""):
		return "fault_times and message", errors.New("need a status or a fault")
	case f.Each != "" && (f.Last != "" || len(f.ToolCalls) == 0):
		return "each", errors.New("needs tool_calls, and excludes last")
	case f.Text == "" && len(f.ToolCalls) == 0 && (!faulty || f.FaultTimes > 0):
		return "rule", errors.New("it answers neither text nor tool_calls")
	}
	return "", nil
}

func compilePatterns(f fileRule, r *rule) (field string, err error) {
	for _, p := range []struct {
		field, text string
		into        **regexp.Regexp
	}{{"agent", f.Agent, &r.agent}, {"last", f.Last, &r.last}, {"user", f.User, &r.user}, {"each", f.Each, &r.each}} {
		if p.text == "" {
			continue
		}
		if *p.into, err = regexp.Compile(p.text); err != nil {
			return p.field, err
		}
	}
	return "", nil
}

// compileAnswer prepares what the rule says.
func compileAnswer(f fileRule, r *rule) (field string, err error) {
	if r.text, err = newPhrase(f.Text); err != nil {
		return "text", err
	}
	if r.reasoning, err = newPhrase(f.Reasoning); err != nil {
		return "reasoning", err
	}
	for _, c := range f.ToolCalls {
		if !validName(c.Name) {
			return "tool_calls", fmt.Errorf("%q is no name of a tool", c.Name)
		}
		a, err := newArguments(&c.Arguments)
		if err != nil {
			return "tool_calls: " + c.Name, err
		}
		r.calls = append(r.calls, scriptedCall{id: c.ID, name: c.Name, arguments: a})
	}
	return "", nil
}

// negative is the first field that is below zero.
func negative(f fileRule) string {
	for _, n := range []struct {
		field string
		below bool
	}{
		{"step", f.Step < 0}, {"times", f.Times < 0}, {"fault_times", f.FaultTimes < 0}, {"chunk_size", f.ChunkSize < 0},
		{"delay", f.Delay < 0}, {"chunk_delay", f.ChunkDelay < 0}, {"retry_after", f.RetryAfter < 0},
	} {
		if n.below {
			return n.field
		}
	}
	return ""
}
