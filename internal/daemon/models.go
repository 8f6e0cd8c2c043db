package daemon

import (
	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/server"
)

// newCatalog makes the providers, each behind a gate of its own, and what is known of their models.
func newCatalog(c config.Config) (*model.Catalog, error) {
	fallback, err := newProvider(c, c.ProviderOf(""))
	if err != nil {
		return nil, err
	}
	gates := map[string]model.Model{config.DefaultProvider: fallback}
	for _, p := range c.Providers {
		if gates[p.Name], err = newProvider(c, p); err != nil {
			return nil, err
		}
	}
	known := map[string]model.Known{}
	for _, m := range c.Models {
		known[m.Name] = model.Known{Provider: gates[m.Provider], Facts: model.Facts{
			ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput, Price: priceOf(m),
		}}
	}
	return model.NewCatalog(fallback, known, c.HintFor), nil
}

func newProvider(c config.Config, p config.Provider) (model.Model, error) {
	provider, err := model.NewOpenAI(model.Config{
		BaseURL: p.BaseURL, APIKey: p.APIKey.Reveal(), IdleTimeout: c.ModelIdleTimeout, FirstByteTimeout: c.ModelIdleTimeout,
	})
	if err != nil {
		return nil, err
	}
	return model.NewGate(provider, model.GateConfig{}), nil
}

// priceOf is what a model costs; nil: nobody told.
func priceOf(m config.Model) *model.Price {
	if m.InputPrice == nil || m.OutputPrice == nil {
		return nil
	}
	price := &model.Price{Input: int64(*m.InputPrice), Output: int64(*m.OutputPrice), Cached: int64(*m.InputPrice)}
	if m.CachedPrice != nil {
		price.Cached = int64(*m.CachedPrice)
	}
	return price
}

// providerStates tell of the further providers for the status.
func providerStates(c config.Config) []server.ProviderState {
	var states []server.ProviderState
	for _, p := range c.Providers {
		state := server.ProviderState{Name: p.Name, BaseURL: p.BaseURL}
		if p.APIKey != "" {
			state.APIKeyEnv = p.APIKeyEnv
		}
		for _, m := range c.Models {
			if m.Provider == p.Name {
				state.Models = append(state.Models, m.Name)
			}
		}
		states = append(states, state)
	}
	return states
}
