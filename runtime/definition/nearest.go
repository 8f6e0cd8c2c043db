package definition

import (
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/roster"
)

// nearest are the known names, those first that the fewest edits make of word, whatever their case.
func nearest(word string, known []string) []string {
	if len(word) > 2*roster.MaxName {
		word = cut(word, 2*roster.MaxName) // what is much longer than a name resembles none
	}
	word = strings.ToLower(word)
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return edits(word, strings.ToLower(a)) - edits(word, strings.ToLower(b))
	})
	return sorted
}

// edits counts the bytes to insert, delete or replace that make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: edits from what was read of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
