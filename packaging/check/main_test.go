package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// made is a release of one system, before it is written.
type made struct {
	files map[string]string           // of the folder
	holds map[string]map[string]entry // of archives
}

const version = "1.2.3"

// whole makes a release with nothing wrong.
func whole(t *testing.T, program []byte) *made {
	t.Helper()
	m := &made{files: map[string]string{"metadata.json": `{"version":"` + version + `"}`}, holds: map[string]map[string]entry{}}
	when := time.Unix(1_700_000_000, 0)
	for kind, programs := range archives {
		holds := map[string]entry{}
		for _, name := range contents(kind, "") {
			holds[name] = entry{0o644, when, []byte("text")}
		}
		for _, name := range programs {
			holds[name] = entry{0o755, when, program}
			m.files[name+"_"+version+"_linux_amd64.cdx.json"] = `{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"name":"` + name + `","version":"v1.2.3"}},
				"components":[{"name":"std","version":"go1.26","purl":"pkg:golang/std@1.26"}]}`
		}
		m.holds[kind+"_"+version+"_linux_amd64.tar.gz"] = holds
	}
	for _, name := range archives["setpoint"] {
		m.files[name+"_"+version+"_amd64.deb"], m.files[name+"-"+version+"-1.x86_64.rpm"] = "deb", "rpm"
	}
	return m
}

// write writes it, with sums that are right, and what refers to them.
func (m *made) write(t *testing.T) string {
	t.Helper()
	for name, holds := range m.holds {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
		fatal.If(t, err)
		files := tar.NewWriter(z)
		for _, inside := range slices.Sorted(maps.Keys(holds)) {
			e := holds[inside]
			fatal.If(t, files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: int64(e.mode), ModTime: e.when, Size: int64(len(e.content))}))
			_, _ = files.Write(e.content)
		}
		fatal.If(t, files.Close())
		fatal.If(t, z.Close())
		m.files[name] = b.String()
	}
	folder := t.TempDir()
	sum := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(m.files[name]))) }
	for name := range m.files {
		if name != "metadata.json" && name != "checksums.txt" {
			m.files["checksums.txt"] += sum(name) + "  " + name + "\n"
		}
	}
	plugin, formula := "kubectl-setpoint_1.2.3_linux_amd64.tar.gz", "setpoint_1.2.3_linux_amd64.tar.gz"
	m.files["krew/setpoint.yaml"] = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata: {name: setpoint}
spec:
  version: v1.2.3
  homepage: https://example.com
  shortDescription: Explain why
  description: More
  platforms:
  - {bin: kubectl-setpoint, sha256: ` + sum(plugin) + `, uri: "` + download + "v1.2.3/" + plugin + `", selector: {matchLabels: {os: linux, arch: amd64}}}
`
	m.files["setpoint.rb"] = fmt.Sprintf("url %q\n  sha256 %q\n bash_completion.install \"completions/#{program}/bash\"", download+"v1.2.3/"+formula, sum(formula))
	fatal.If(t, os.CopyFS(folder, files(m.files)))
	return folder
}

func files(from map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, text := range from {
		out[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return out
}

// program is one for Linux, as releases have them.
func program(t *testing.T, flags ...string) []byte {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/small\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() {}\n"} {
		fatal.If(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", "small", ".")...)
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []byte(testpages.Read(t, filepath.Join(folder, "small")))
}

// What is wrong with a release is said, whatever part of it that is.
func TestProblemsOfAReleaseAreReported(t *testing.T) {
	t.Parallel()
	good := program(t, "-trimpath")
	const (
		archive = "setpoint_1.2.3_linux_amd64.tar.gz"
		plugin  = "kubectl-setpoint_1.2.3_linux_amd64.tar.gz"
		bill    = "setpoint_1.2.3_linux_amd64.cdx.json"
	)
	// edit changes a file after it was written.
	edit := func(name, old, with string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil || !strings.Contains(string(text), old) {
				t.Fatalf("%s has no %q: %v", name, old, err)
			}
			fatal.If(t, os.WriteFile(filepath.Join(folder, name), []byte(strings.Replace(string(text), old, with, 1)), 0o600))
		}
	}
	for _, c := range []struct {
		name   string
		before func(*made)
		after  func(*testing.T, string)
		wanted []string
		says   string // "": nothing is wrong
	}{
		{name: "nothing"},
		{name: "a system is missing", wanted: []string{"linux_amd64", "windows_arm64"}, says: "setpoint_1.2.3_windows_arm64.zip"},
		{name: "a system that is none", wanted: []string{"plan9_amd64"}, says: "plan9_amd64 is none of"},
		{name: "no completions", before: func(m *made) { delete(m.holds[archive], "completions/setpoint-swarm/fish") }, says: "has no completions/setpoint-swarm/fish"},
		{name: "an empty licence", before: func(m *made) { m.holds[plugin]["LICENSE"] = entry{mode: 0o644} }, says: "has no LICENSE, or an empty one"},
		{name: "a way out", before: func(m *made) { m.holds[archive]["../x"] = entry{0o644, time.Unix(1_700_000_000, 0), []byte("x")} }, says: "../x leads out"},
		{name: "another time", before: func(m *made) { m.holds[archive]["LICENSE"] = entry{0o644, time.Unix(1, 0), []byte("x")} }, says: "all are to be the commit's"},
		{name: "a program that can't be started", before: func(m *made) {
			m.holds[archive]["setpoint"] = entry{0o644, time.Unix(1_700_000_000, 0), good}
		}, says: "setpoint has mode"},
		{name: "a text for a program", before: func(m *made) {
			m.holds[archive]["setpoint"] = entry{0o755, time.Unix(1_700_000_000, 0), []byte("x")}
		}, says: "setpoint: "},
		{name: "folders in a program", before: func(m *made) {
			m.holds[archive]["setpoint"] = entry{0o755, time.Unix(1_700_000_000, 0), program(t)}
		}, says: "names the folder that it was built in"},
		{name: "no bill", before: func(m *made) { delete(m.files, bill) }, says: bill},
		{name: "a bill of another version", before: func(m *made) { m.files[bill] = strings.Replace(m.files[bill], "v1.2.3", "v1.2.2", 1) }, says: `for version "v1.2.2"`},
		{name: "a part without a version", before: func(m *made) { m.files[bill] = strings.Replace(m.files[bill], "go1.26", "", 1) }, says: `std has version ""`},
		{name: "no package", before: func(m *made) { delete(m.files, "setpoint-nomad_1.2.3_amd64.deb") }, says: "setpoint-nomad_[0-9]*_amd64.deb"},
		{name: "another sum", after: edit("setpoint_1.2.3_amd64.deb", "deb", "bed"), says: "the sum of setpoint_1.2.3_amd64.deb is"},
		{name: "no sum", after: edit("checksums.txt", "  "+bill, "  metadata.json"), says: "checksums.txt has no " + bill},
		{name: "krew's sum", after: edit("krew/setpoint.yaml", "sha256: ", "sha256: 0"), says: "krew/setpoint.yaml: " + plugin + " has the sum 0"},
		{name: "krew's program", after: edit("krew/setpoint.yaml", "bin: kubectl-setpoint", "bin: setpoint"), says: "linux_amd64 starts setpoint"},
		{name: "krew's version", after: edit("krew/setpoint.yaml", "version: v1.2.3", "version: 1.2.3"), says: "of version 1.2.3"},
		{name: "krew's fields", after: edit("krew/setpoint.yaml", "homepage:", "homePage2:"), says: "homePage2"},
		{name: "krew's platforms", after: edit("krew/setpoint.yaml", "arch: amd64", "arch: arm64"), says: "has platforms [linux_arm64]"},
		{name: "the formula's address", after: edit("setpoint.rb", "v1.2.3/", "v1.2.4/"), says: "is no file of this release"},
		{name: "what the formula installs", after: edit("setpoint.rb", "completions/", "completion/"), says: "installs completion/setpoint/bash"},
	} {
		m := whole(t, good)
		if c.before != nil {
			c.before(m)
		}
		folder := m.write(t)
		if c.after != nil {
			c.after(t, folder)
		}
		if c.wanted == nil {
			c.wanted = []string{"linux_amd64"}
		}
		if err := check(folder, c.wanted); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
