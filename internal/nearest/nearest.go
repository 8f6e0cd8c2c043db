// Package nearest finds what somebody may have meant to write.
package nearest

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// longest bounds what is compared, in bytes: what is much longer than a name resembles none.
const longest = 128

// Names are the known names, those first that the fewest edits make of word, whatever their case.
func Names(word string, known []string) []string {
	for len(word) > longest {
		_, size := utf8.DecodeLastRuneInString(word[:longest+1])
		word = word[:longest+1-size]
	}
	word = strings.ToLower(word)
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int {
		return edits(word, strings.ToLower(a)) - edits(word, strings.ToLower(b))
	})
	return sorted
}

// Name is the first of Names; known must not be empty.
func Name(word string, known []string) string { return Names(word, known)[0] }

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
