// Package demo holds the files of `agentctl demo`: a small repository with a bug and a test that shows it, and the script
// of the model that finds it.
package demo

import (
	"embed"
	"io/fs"
)

//go:embed repository script.yaml
var files embed.FS

// Files has the directory `repository` and the file `script.yaml`, which `agentd model-server --script` takes.
func Files() fs.FS { return files }
