package runtime

import "github.com/agentd-dev/agentd/runtime/definition"

// Definitions are the agent definitions that a spawn in a workspace can name, by name, and what is wrong with the rest.
// Without a workspace they are the user's and the built-in ones.
func (s *Supervisor) Definitions(workspace string) ([]definition.Definition, []definition.Problem, error) {
	if workspace != "" {
		var err error
		if workspace, err = s.canonical(workspace); err != nil {
			return nil, nil, err
		}
	}
	definitions, problems := s.cfg.Definitions.List(workspace)
	return definitions, problems, nil
}

// ReloadDefinitions reads the definitions of the user and of the workspaces in use anew. It tells how many there are, and
// what is wrong. Tasks that were spawned keep what they began with.
func (s *Supervisor) ReloadDefinitions() (count int, problems []definition.Problem) {
	return s.cfg.Definitions.Reload()
}
