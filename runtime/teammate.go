package runtime

import (
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxColor bounds a color's name, in bytes.
const maxColor = 32

func checkTeammate(as task.TeammateSpec) error {
	if as.Name != task.LeadName {
		if err := roster.CheckName("name", as.Name); err != nil {
			return err
		}
	}
	if len(as.Color) > maxColor || strings.IndexFunc(as.Color, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return errdefs.BadField("color", "%q is no color: give up to %d letters a to z, such as `blue`", as.Color, maxColor)
	}
	return nil
}
