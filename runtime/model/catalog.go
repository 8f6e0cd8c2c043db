package model

import (
	"context"
	"math/big"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Facts is what the configuration tells of a model.
type Facts struct {
	ContextWindow int64  // tokens of a request and its answer together; 0: unknown
	MaxOutput     int64  // tokens of one answer, less than ContextWindow; 0: the provider's own bound
	Price         *Price // nil: unknown
	Missing       string // what to do before it can be asked, one line for people (N6); empty: nothing
}

// Price is what a model's tokens cost, in nano-dollars a million.
type Price struct {
	Input, Output int64
	Cached        int64 // of input that the provider had in its cache
}

// mostOfCost bounds the cost of one call: sums of them never overflow.
const mostOfCost = 1_000_000 * task.Dollar

// Cost is what the tokens of one call cost in nano-dollars, half ones rounded up; at most a million dollars.
func (p Price) Cost(u task.Usage) int64 {
	cached := min(u.CachedTokens, u.InputTokens)
	sum := new(big.Int)
	for _, part := range [][2]int64{
		{u.InputTokens - cached, p.Input}, {cached, p.Cached}, {u.OutputTokens, p.Output},
	} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	const million = 1_000_000
	sum.Add(sum, big.NewInt(million/2))
	sum.Div(sum, big.NewInt(million))
	if !sum.IsInt64() {
		return mostOfCost
	}
	return min(sum.Int64(), mostOfCost)
}

// Known is a model that the configuration knows.
type Known struct {
	Provider Model // who is asked for it, behind its gate
	Facts    Facts
}

// Catalog is a Model that asks each model at its own provider, and models that it does not know at the default one. It is
// immutable.
type Catalog struct {
	fallback Model
	known    map[string]Known
	missing  func(name string) string
}

// NewCatalog makes a catalog of the models that are known by name, and of the provider of all others. missing tells what
// to do before a model can be asked, empty: nothing; the Facts have it, and calls of such a model fail with it, class
// NotConfigured.
func NewCatalog(fallback Model, known map[string]Known, missing func(name string) string) *Catalog {
	return &Catalog{fallback, known, missing}
}

// Facts is what is known of a model of any name.
func (c *Catalog) Facts(name string) Facts {
	facts := c.known[name].Facts
	facts.Missing = c.missing(name)
	return facts
}

// Call asks the request's model at its provider, for no longer an answer than the model gives.
func (c *Catalog) Call(ctx context.Context, req Request, sink func(Event)) (Response, error) {
	if missing := c.missing(req.Model); missing != "" {
		return Response{}, &Error{Class: NotConfigured, Message: missing}
	}
	m, ok := c.known[req.Model]
	if !ok {
		return c.fallback.Call(ctx, req, sink)
	}
	req.MaxOutput = m.Facts.MaxOutput
	return m.Provider.Call(ctx, req, sink)
}
