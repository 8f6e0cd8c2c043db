package config

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/runtime/task"
)

// DefaultProvider is what the provider of base_url and api_key_env is called.
const DefaultProvider = "default"

// Provider is a further provider of models.
type Provider struct {
	Name      string
	BaseURL   string // http or https
	APIKeyEnv string // variable that holds its key; empty: it needs none
	APIKey    Secret // that variable's value
}

// Model is what the user tells of a model.
type Model struct {
	Name          string
	Provider      string // name of one of Providers, or DefaultProvider
	ContextWindow int64  // tokens; 0: unknown
	MaxOutput     int64  // tokens of one answer; 0: unknown
	InputPrice    *Price // nil, with OutputPrice: unknown
	OutputPrice   *Price
	CachedPrice   *Price // nil: that of input
}

// Price is what a million tokens cost, in nano-dollars.
type Price int64

// maxPrice bounds a price, in US dollars per million tokens.
const maxPrice = 10_000

// UnmarshalYAML takes US dollars, as a decimal number with at most nine decimals.
func (p *Price) UnmarshalYAML(node *yaml.Node) error {
	if !regexp.MustCompile(`^\d{1,9}(\.\d{1,9})?$`).MatchString(node.Value) {
		return errors.New("no price")
	}
	nano, _ := new(big.Rat).SetString(node.Value) // the pattern has only what it takes
	nano.Mul(nano, big.NewRat(task.Dollar, 1))
	*p = Price(nano.Num().Int64())
	return nil
}

// MarshalYAML gives US dollars.
func (p Price) MarshalYAML() (any, error) {
	text := strings.TrimRight(big.NewRat(int64(p), task.Dollar).FloatString(9), "0")
	return &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSuffix(text, ".")}, nil
}

// checkProvider makes a provider's values canonical, or names the key that is wrong.
func checkProvider(p *Provider, taken map[string]bool) (key string, err error) {
	switch {
	case !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(p.Name):
		return "name", fmt.Errorf("%.40q is no name: small letters, digits, - and _, at most 64", p.Name)
	case p.Name == DefaultProvider:
		return "name", errors.New("default is the provider of the key base_url; choose another name")
	case taken[p.Name]:
		return "name", fmt.Errorf("%s stands twice", p.Name)
	case p.APIKeyEnv != "" && !variableName(p.APIKeyEnv):
		return "api_key_env", errors.New("it is not the name of a variable; give the name, not the key")
	}
	p.BaseURL, err = canonicalURL(p.BaseURL)
	return "base_url", err
}

// checkListedModel names the key that is wrong.
func checkListedModel(m Model, providers, seen map[string]bool) (key string, err error) {
	if err := checkModelName(m.Name); err != nil {
		return "name", err
	}
	switch {
	case m.Name == "":
		return "name", errors.New("it is empty")
	case seen[m.Name]:
		return "name", fmt.Errorf("%s stands twice", m.Name)
	case m.Provider != DefaultProvider && !providers[m.Provider]:
		return "provider", fmt.Errorf("%.40q is none of the providers", m.Provider)
	case m.ContextWindow < 0 || m.ContextWindow > 0 && m.ContextWindow < MinContextWindow:
		return "context_window", fmt.Errorf("%d is less than %d tokens", m.ContextWindow, MinContextWindow)
	case m.MaxOutput < 0:
		return "max_output", fmt.Errorf("%d is negative", m.MaxOutput)
	case m.ContextWindow > 0 && m.MaxOutput >= m.ContextWindow:
		return "max_output", fmt.Errorf("%d leaves nothing of the context window of %d", m.MaxOutput, m.ContextWindow)
	}
	return checkPrices(m)
}

func checkPrices(m Model) (key string, err error) {
	for _, p := range []struct {
		key   string
		price *Price
	}{{"input_price", m.InputPrice}, {"output_price", m.OutputPrice}, {"cached_price", m.CachedPrice}} {
		if p.price != nil && *p.price > maxPrice*task.Dollar {
			return p.key, fmt.Errorf("it is more than %d dollars", maxPrice)
		}
	}
	switch {
	case (m.InputPrice == nil) != (m.OutputPrice == nil):
		return "output_price", errors.New("input_price and output_price go together")
	case m.CachedPrice != nil && m.InputPrice == nil:
		return "cached_price", errors.New("it goes together with input_price and output_price")
	}
	return "", nil
}

// listed finds what the user tells of a model.
func (c Config) listed(name string) (Model, bool) {
	i := slices.IndexFunc(c.Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, false
	}
	return c.Models[i], true
}

// ProviderOf is who is asked for the model of a name: the default provider when the model is not listed.
func (c Config) ProviderOf(name string) Provider {
	m, _ := c.listed(name)
	i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == m.Provider })
	if i < 0 {
		return Provider{Name: DefaultProvider, BaseURL: c.BaseURL, APIKeyEnv: c.APIKeyEnv, APIKey: c.APIKey}
	}
	return c.Providers[i]
}

// MissingFor tells what is missing to ask the model of a name, the default one when it is empty (N6); empty when
// nothing is. Names that are not listed are the default provider's, once the user has chosen a default model.
func (c Config) MissingFor(name string) string {
	_, listed := c.listed(name)
	switch p := c.ProviderOf(name); {
	case c.Model == "" && !listed:
		return "no model is configured: name one with agentd --model NAME or the variable AGENTD_MODEL"
	case p.APIKey != "":
		return ""
	case c.keyByHand(p):
		return fmt.Sprintf("the model %s has no key: agentctl gives a daemon that it starts no other key than that of"+
			" api_key_env; end this one, and start agentd by hand where the variable %s holds your key for the provider %s",
			name, p.APIKeyEnv, p.Name)
	case p.Name != DefaultProvider && p.APIKeyEnv != "":
		return fmt.Sprintf("the model %s has no key: set the variable %s to your key for the provider %s",
			name, p.APIKeyEnv, p.Name)
	case p.Name == DefaultProvider && c.sources["base_url"] == fromDefault:
		return fmt.Sprintf("the model %s has no provider: set the variable %s to your key, or give the URL of a server"+
			" that needs none with --base-url URL or the variable AGENTD_BASE_URL", name, p.APIKeyEnv)
	}
	return ""
}

// HintFor tells what to do so that the running daemon can ask the model of a name; empty when it can.
func (c Config) HintFor(name string) string {
	missing := c.MissingFor(name)
	switch {
	case missing == "", c.keyByHand(c.ProviderOf(name)):
		return missing
	case c.AutoStarted && !c.ModelConfigured():
		return missing + "; agentctl then restarts the daemon by itself"
	}
	return missing + ", and restart agentd"
}

// keyByHand tells whether a provider lacks a key that agentctl never passes on to a daemon that it starts.
func (c Config) keyByHand(p Provider) bool {
	return c.AutoStarted && p.APIKey == "" && p.Name != DefaultProvider && p.APIKeyEnv != "" && p.APIKeyEnv != c.APIKeyEnv
}
