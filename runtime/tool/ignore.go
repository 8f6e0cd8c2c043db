package tool

import (
	"io"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/agentd-dev/agentd/runtime/sandbox"
)

const (
	ignoreFile  = ".gitignore"
	ignoreBytes = 1 << 20 // bytes of one .gitignore that count
)

// ignores are the .gitignore files that hold in a directory, the outermost first.
type ignores []ignoreRules

// ignoreRules are the rules of one .gitignore.
type ignoreRules struct {
	dir   string // that the file lies in: slash path, as those that are asked about; "." at the top
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	pattern  string // against the name, or the path from the file's directory
	nameOnly bool   // against the name
	literal  bool   // no wildcards
	dirOnly  bool   // holds for directories
	again    bool   // `!`: takes back what rules before it ignore
}

// with adds the .gitignore of a directory, if it has one that can be read.
func (i ignores) with(dir *os.Root, at string) ignores {
	f, _, err := sandbox.OpenFile(dir, ignoreFile)
	if err != nil {
		return i
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, ignoreBytes))
	if err != nil {
		return i
	}
	rules := parseIgnore(string(content))
	return append(i[:len(i):len(i)], ignoreRules{dir: at, rules: rules})
}

// ignored tells whether the rules leave out a file or directory: the last rule of the innermost file that matches
// decides. Whoever asks does not go into ignored directories, so nothing in them can be taken back.
func (i ignores) ignored(at string, isDir bool) bool {
	for f := len(i) - 1; f >= 0; f-- {
		rel := at
		if i[f].dir != "." {
			rel = strings.TrimPrefix(at, i[f].dir+"/")
		}
		for r := len(i[f].rules) - 1; r >= 0; r-- {
			if rule := i[f].rules[r]; rule.matches(rel, isDir) {
				return !rule.again
			}
		}
	}
	return false
}

func (r ignoreRule) matches(rel string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if r.nameOnly {
		rel = path.Base(rel)
	}
	if r.literal {
		return rel == r.pattern
	}
	return doublestar.MatchUnvalidated(r.pattern, rel)
}

// parseIgnore reads a .gitignore. Lines that git would not understand hold for nothing.
func parseIgnore(content string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(strings.TrimPrefix(content, "\ufeff")) {
		line = trimSpaces(strings.TrimRight(line, "\r\n"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		line, r.again = strings.CutPrefix(line, "!")
		line, r.dirOnly = strings.CutSuffix(line, "/")
		r.nameOnly = !strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		r.literal = !strings.ContainsAny(line, `*?[\`)
		if !r.literal {
			line = gitStars(plainBraces(line))
		}
		if inside, ok := strings.CutSuffix(line, "/**"); ok {
			line = inside + "/**/*" // all that is inside, not the directory itself
		}
		if r.pattern = line; line != "" && (r.literal || doublestar.ValidatePattern(line)) {
			rules = append(rules, r)
		}
	}
	return rules
}

// plainBraces takes the meaning off braces, for git knows no alternatives. What a backslash escapes stays as it is.
func plainBraces(pattern string) string {
	return strings.NewReplacer(`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`).Replace(pattern)
}

// gitStars spells runs of stars as git reads them: any directories where they are a whole name, else as one star.
func gitStars(pattern string) string {
	names := strings.Split(pattern, "/")
	for i, name := range names {
		whole := len(name) > 1 && strings.Trim(name, "*") == ""
		for strings.Contains(name, "**") {
			name = strings.ReplaceAll(name, "**", "*")
		}
		if whole {
			name = "**"
		}
		names[i] = name
	}
	return strings.Join(names, "/")
}

// trimSpaces takes off the spaces at the end that no backslash keeps.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	if strings.HasSuffix(trimmed, `\`) && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}
