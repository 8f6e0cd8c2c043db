package model_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// named is a provider that answers with its name and what it was asked.
type named string

func (n named) Call(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	return model.Response{Text: string(n) + " " + req.Model, Usage: model.Usage{OutputTokens: req.MaxOutput}}, nil
}

func TestCatalogAsksEachModelAtItsProvider(t *testing.T) {
	price := &model.Price{Input: 1}
	c := model.NewCatalog(named("default"), map[string]model.Known{
		"big":   {Provider: named("default"), Facts: model.Facts{ContextWindow: 1000, MaxOutput: 10, Price: price}},
		"small": {Provider: named("local")},
		"far":   {Provider: named("other")},
	}, func(name string) string {
		if name == "far" {
			return "set FAR_KEY"
		}
		return ""
	})
	for name, want := range map[string]string{
		"big": "default big", "small": "local small", "any": "default any", "far": "",
	} {
		resp, err := c.Call(t.Context(), model.Request{Model: name}, nowhere)
		var failed *model.Error
		switch {
		case want == "" && (!errors.As(err, &failed) || failed.Class != model.NotConfigured || failed.Message != "set FAR_KEY"):
			t.Errorf("%s: %v", name, err)
		case want != "" && (err != nil || resp.Text != want):
			t.Errorf("%s was answered %q, %v", name, resp.Text, err)
		}
		if resp.Usage.OutputTokens != c.Facts(name).MaxOutput {
			t.Errorf("%s was asked for %d tokens", name, resp.Usage.OutputTokens)
		}
	}
	if f := c.Facts("big"); f.ContextWindow != 1000 || f.Price != price || f.Missing != "" {
		t.Errorf("facts: %+v", f)
	}
	if f := c.Facts("far"); f.Missing != "set FAR_KEY" || f.Price != nil {
		t.Errorf("facts: %+v", f)
	}
	if f := c.Facts("any"); f != (model.Facts{}) {
		t.Errorf("facts of a model that nobody configured: %+v", f)
	}
}

// proves R5: cost is counted in whole nano-dollars, half ones rounded up.
func TestCost(t *testing.T) {
	const dollar = task.Dollar
	price := model.Price{Input: 1_250_000_000, Output: 10 * dollar, Cached: 125_000_000}
	for _, c := range []struct {
		price model.Price
		used  task.Usage
		want  int64
	}{
		{price, task.Usage{}, 0},
		{price, task.Usage{InputTokens: 1_000_000}, 1_250_000_000},
		{price, task.Usage{InputTokens: 1_000_000, CachedTokens: 400_000, OutputTokens: 1000}, 750_000_000 + 50_000_000 + 10_000_000},
		{price, task.Usage{InputTokens: 10, CachedTokens: 20}, 1250}, // more cached than read
		{price, task.Usage{OutputTokens: 3, ReasoningTokens: 2}, 30_000},
		{model.Price{Input: 499_999}, task.Usage{InputTokens: 1}, 0},
		{model.Price{Input: 500_000}, task.Usage{InputTokens: 1}, 1},
		{model.Price{Input: 1}, task.Usage{InputTokens: 1_500_000}, 2},
		{model.Price{Input: 10_000 * dollar}, task.Usage{InputTokens: math.MaxInt64}, 1_000_000 * dollar},
		{model.Price{Input: 10_000 * dollar}, task.Usage{InputTokens: 1 << 40}, 1_000_000 * dollar},
	} {
		if got := c.price.Cost(c.used); got != c.want {
			t.Errorf("%+v at %+v costs %d, want %d", c.used, c.price, got, c.want)
		}
	}
}

// The bound of an answer goes over the wire only when there is one.
func TestMaxOutputOnTheWire(t *testing.T) {
	for n, want := range map[int64]bool{0: false, 77: true} {
		req := hello()
		req.MaxOutput = n
		body := sent(t, req)
		if strings.Contains(body, `"max_completion_tokens":77`) != want || strings.Contains(body, "max_completion_tokens") != want {
			t.Errorf("%d: %s", n, body)
		}
	}
}

// sent is the body of a request as it goes over the wire.
func sent(t *testing.T, req model.Request) string {
	t.Helper()
	bodies := make(chan string, 1)
	m := adapter(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}), model.Config{})
	_, _ = m.Call(t.Context(), req, nowhere) // the answer is empty
	return <-bodies
}
