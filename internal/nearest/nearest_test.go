package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/nearest"
)

func TestNames(t *testing.T) {
	known := []string{"bash", "read", "edit", "grep"}
	for word, want := range map[string]string{
		"raed": "read", "Bash": "bash", "gerp": "grep", "edited": "edit", "": "bash", "read": "read",
		strings.Repeat("\u00e9", 1000): "bash", // resembles none: the order stays
	} {
		if got := nearest.Name(word, known); got != want {
			t.Errorf("%.20q: %s, want %s", word, got, want)
		}
	}
	if got := nearest.Names("edit", known); got[0] != "edit" || len(got) != len(known) || !slices.Equal(known, []string{"bash", "read", "edit", "grep"}) {
		t.Errorf("%v of %v", got, known)
	}
}
