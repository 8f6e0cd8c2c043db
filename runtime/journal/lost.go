package journal

import "github.com/agentd-dev/agentd/internal/errdefs"

// IsLost tells that a record can't be read and never will be: there is none, or it is in quarantine.
func IsLost(err error) bool {
	return errdefs.Is(err, errdefs.TaskNotFound) || errdefs.Is(err, errdefs.RecordCorrupt)
}
