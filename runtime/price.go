package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// checkModel refuses a new agent whose model can't be asked (N6), or whose calls would cost what nobody can count although
// its budget, or that of a task above it, bounds the cost (R4).
func (s *Supervisor) checkModel(ctx context.Context, t task.Task) error {
	facts := s.cfg.Facts(t.Model)
	switch {
	case facts.Missing != "":
		return errdefs.New(errdefs.FailedPrecondition, errdefs.ModelNotConfigured, t.Model, "%s", facts.Missing)
	case facts.Price != nil:
		return nil
	case t.Budget.Cost > 0:
		return noPrice("budget.cost_usd", t.Model, "the cost")
	}
	in, err := s.cfg.Journal.Team(ctx, t.Team)
	if err != nil {
		return err
	}
	if in.Budget.Cost > 0 {
		return noPrice("model", t.Model, "the cost of the team "+in.Name)
	}
	for _, id := range t.Ancestors {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil && !errdefs.Is(err, errdefs.TaskNotFound) {
			return err
		}
		if row.Value.Budget.Cost > 0 {
			return noPrice("model", t.Model, "the cost of "+string(id))
		}
	}
	return nil
}

func noPrice(field, name, bounded string) error {
	return errdefs.BadField(field, "%s is bounded, but the model %s has no price: list it under models in agentd.yaml with "+
		"input_price and output_price, and restart agentd", bounded, name)
}
