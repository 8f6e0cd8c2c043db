package server

import (
	"context"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
)

// About is what GetStatus tells of the daemon that does not change while it runs.
type About struct {
	Version     string
	PID         int
	Started     time.Time
	StateDir    string   // absolute
	Listen      []string // addresses, such as unix:///PATH
	REST        string   // address; empty: off
	StoreID     string
	AutoStarted bool // agentctl started it
	Model       ModelState
	Providers   []ProviderState // beside the default one
}

// ModelState is what GetStatus tells of the model.
type ModelState struct {
	Configured bool
	Model      string // name of the default model
	BaseURL    string
	APIKeyEnv  string // variable that the key comes from; empty: no key
	Hint       string // what to do when it is not configured
}

// ProviderState is what GetStatus tells of a further provider of models.
type ProviderState struct {
	Name      string
	BaseURL   string
	APIKeyEnv string   // variable that the key comes from; empty: no key
	Models    []string // that are configured for it
}

// StoreState is what GetStatus tells of the store.
type StoreState struct {
	Stalled      bool   // commits fail now (D8)
	Error        string // why, for people
	SizeBytes    int64
	Quarantined  int64  // values with a wrong checksum
	SalvagedFrom string // where a damaged file was set aside at this start; empty: it was not
}

// daemon is the DaemonService.
type daemon struct {
	agentdv1.UnimplementedDaemonServiceServer
	about  About
	store  func() StoreState
	counts func() (queued, running, stuck int)

	supervisor *runtime.Supervisor // has the agent definitions
}

// GetStatus tells how the daemon is.
func (d daemon) GetStatus(context.Context, *agentdv1.GetStatusRequest) (*agentdv1.GetStatusResponse, error) {
	queued, running, stuck := d.counts()
	store, model := d.store(), d.about.Model
	return &agentdv1.GetStatusResponse{
		Version: d.about.Version, Pid: int32(d.about.PID), StartedAt: timeToWire(d.about.Started),
		StateDir: d.about.StateDir, Listen: d.about.Listen, Rest: d.about.REST,
		StoreId: d.about.StoreID, AutoStarted: d.about.AutoStarted,
		Store: &agentdv1.StoreStatus{
			Stalled: store.Stalled, Error: store.Error, SizeBytes: store.SizeBytes, Quarantined: store.Quarantined,
			SalvagedFrom: store.SalvagedFrom,
		},
		Model: &agentdv1.ModelStatus{
			Configured: model.Configured, Model: model.Model, BaseUrl: model.BaseURL, ApiKeyEnv: model.APIKeyEnv,
			Hint: model.Hint,
		},
		Providers:   d.about.providers(),
		TasksQueued: int32(queued), TasksRunning: int32(running), TasksStuck: int32(stuck),
	}, nil
}

func (a About) providers() []*agentdv1.ProviderStatus {
	var list []*agentdv1.ProviderStatus
	for _, p := range a.Providers {
		list = append(list, &agentdv1.ProviderStatus{Name: p.Name, BaseUrl: p.BaseURL, ApiKeyEnv: p.APIKeyEnv, Models: p.Models})
	}
	return list
}
