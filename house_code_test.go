package agentd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
)

// source is one parsed file.
type source struct {
	name string // path from the repository's root
	set  *token.FileSet
	*ast.File
}

// files are one package's, without the generated ones.
type files struct{ code, tests []source }

// skipped tells whether a directory holds no code of ours.
func skipped(dir string) bool {
	name := filepath.Base(dir)
	return dir == "gen" || dir == "tools" || dir == "bin" || name == "testdata" || (dir != "." && name[0] == '.')
}

// tree parses the repository: packages by their path from the root, without the root, which has tests only.
func tree(t *testing.T) map[string]files {
	t.Helper()
	packages := map[string]files{}
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go" || filepath.Dir(name) == ".":
			return nil
		}
		parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		path := filepath.ToSlash(filepath.Dir(name))
		p := packages[path]
		if f := (source{name: name, set: set, File: parsed}); strings.HasSuffix(name, "_test.go") {
			p.tests = append(p.tests, f)
		} else {
			p.code = append(p.code, f)
		}
		packages[path] = p
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("no packages: the test must run at the repository's root")
	}
	return packages
}

// imports lists what the file imports.
func (f source) imports() []string {
	var paths []string
	for _, spec := range f.Imports {
		// The parser takes only string literals here.
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// used is a package's name that a file uses.
type used struct {
	name string // such as time.Sleep
	at   token.Position
}

// uses lists the names of packages that the file uses.
func (f source) uses() []used {
	var names []used
	ast.Inspect(f.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				names = append(names, used{pkg.Name + "." + sel.Sel.Name, f.set.Position(n.Pos())})
			}
		}
		return true
	})
	return names
}

func TestGoStandsInFewPlaces(t *testing.T) {
	may := []string{
		"internal/lifecycle", "runtime", "runtime/agent", "runtime/sandbox", "server",
		"store/bolt", // its one committer: a store must work for whoever opens it
	}
	const suite = "store/storetest" // only tests run it
	for path, files := range tree(t) {
		if path == suite || slices.Contains(may, path) {
			continue
		}
		for _, f := range files.code {
			ast.Inspect(f.File, func(n ast.Node) bool {
				if startsGoroutine(n) {
					t.Errorf("%s: go: make it a lifecycle.Part; only %v start goroutines", f.set.Position(n.Pos()), may)
				}
				return true
			})
		}
	}
}

// startsGoroutine tells whether the node is a go statement or a call of a method Go, as wait and error groups have it.
func startsGoroutine(n ast.Node) bool {
	if call, ok := n.(*ast.CallExpr); ok {
		method, ok := call.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Go"
	}
	_, ok := n.(*ast.GoStmt)
	return ok
}

func TestNobodySleeps(t *testing.T) {
	for _, files := range tree(t) {
		for _, f := range files.code {
			for _, used := range f.uses() {
				if used.name == "time.Sleep" {
					t.Errorf("%s: time.Sleep: wait for what is to happen, or for a timer and ctx", used.at)
				}
			}
		}
	}
}

func TestEveryPackageTellsWhatItIs(t *testing.T) {
	for path, files := range tree(t) {
		var comments []string // their first lines
		for _, f := range files.code {
			if f.Doc != nil {
				first, _, _ := strings.Cut(f.Doc.Text(), "\n")
				comments = append(comments, first)
			}
		}
		name := "Package " + filepath.Base(path) + " "
		if strings.HasPrefix(path, "cmd/") {
			name = "Command " + filepath.Base(path) + " "
		}
		if len(comments) != 1 || !strings.HasPrefix(comments[0], name) {
			t.Errorf("%s: want one package comment that begins with %q, got %q", path, name, comments)
		}
	}
}

// TestReasonsAreThoseOfTheProto compares the reasons of internal/errdefs with the enum that clients see.
func TestReasonsAreThoseOfTheProto(t *testing.T) {
	for r := errdefs.Unspecified; r <= errdefs.TeamInUse; r++ {
		want := "ERROR_REASON_" + r.String()
		if got := agentdv1.ErrorReason_name[int32(r)]; got != want {
			t.Errorf("reason %d is %s in errdefs and %q in the proto", r, want, got)
		}
	}
	if len(agentdv1.ErrorReason_name) != int(errdefs.TeamInUse)+1 {
		t.Errorf("errdefs has %d reasons, the proto has %d", errdefs.TeamInUse+1, len(agentdv1.ErrorReason_name))
	}
}

// slugs are the anchors of a document's headings, as GitHub makes them.
func slugs(t *testing.T, document string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// TestLinksLeadSomewhere checks the relative links of the documents, with their anchors.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	if len(documents) == 0 {
		t.Fatal("no documents")
	}
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(filepath.Dir(document), match[1])
			if match[1] == "" {
				target = document
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s has a link to %s: %v", document, match[1], err)
				continue
			}
			if match[2] != "" && !slices.Contains(slugs(t, target), match[2]) {
				t.Errorf("%s has a link to %s#%s, which is no heading there", document, match[1], match[2])
			}
		}
	}
}
