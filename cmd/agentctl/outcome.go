package main

import (
	"fmt"
	"io"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// writeOutcome prints what a task achieved; escape makes its text fit for where it goes.
func writeOutcome(w io.Writer, o *agentdv1.Outcome, escape func(string) string) {
	if o.GetSummary() != "" {
		fmt.Fprintln(w, escape(o.GetSummary()))
	}
	writeError(w, o, escape)
	if o.GetOutput() != "" && o.GetOutput() != o.GetSummary() {
		fmt.Fprintf(w, "\nOutput:\n%s\n", escape(o.GetOutput()))
	}
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, line := range lines {
			writeIndented(w, "- ", escape(line))
		}
	}
	var findings, artifacts, evidence []string
	for _, f := range o.GetFindings() {
		findings = append(findings, findingText(f))
	}
	for _, f := range o.GetArtifacts() {
		artifacts = append(artifacts, f.GetPath()+": "+f.GetDescription())
	}
	section("Findings", findings)
	section("Artifacts", artifacts)
	for _, e := range o.GetEvidence() {
		evidence = append(evidence, evidenceText(e))
	}
	section("Claims (not proven)", o.GetClaims())
	section("Checks", evidence)
	section("Changed files", o.GetChanges())
}

// writeError tells what went wrong, if something did.
func writeError(w io.Writer, o *agentdv1.Outcome, escape func(string) string) {
	if o.GetError() != "" {
		fmt.Fprintln(w, escape("error: "+o.GetError()))
	}
}

// evidenceText is what a check of the daemon found; the output only of one that failed.
func evidenceText(e *agentdv1.Evidence) string {
	switch {
	case e.GetTimedOut():
		return e.GetCommand() + ": took too long\n" + strings.TrimSpace(e.GetOutput())
	case e.GetExitCode() == 0:
		return e.GetCommand() + ": passed"
	}
	return fmt.Sprintf("%s: exit code %d\n%s", e.GetCommand(), e.GetExitCode(), strings.TrimSpace(e.GetOutput()))
}

// findingText is a finding with its place.
func findingText(f *agentdv1.Finding) string {
	text := f.GetTitle()
	switch {
	case f.GetPath() != "" && f.GetLine() > 0:
		text += fmt.Sprintf(" (%s:%d)", f.GetPath(), f.GetLine())
	case f.GetPath() != "":
		text += " (" + f.GetPath() + ")"
	}
	if f.GetDetail() != "" {
		text += "\n" + f.GetDetail()
	}
	return text
}
