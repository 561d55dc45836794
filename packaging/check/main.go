// Check verifies a release before it is published: contents of archives, checksums, bills of
// materials, and the manifests of krew and Homebrew. It prints every problem, and exits with 1 if
// there is one.
//
//	go run ./packaging/check bin/release linux_amd64 darwin_arm64
//
// It expects archives of the named systems, and of all systems if none is named.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/cmd/programs"
)

// systems are the systems with a release.
var systems = []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"}

// archives lists the programs of each kind of archive.
var archives = map[string][]string{
	"setpoint":                  programs.Names(),
	"kubectl-setpoint":          {"kubectl-setpoint"},
	"setpoint-external-metrics": {"setpoint-external-metrics"},
}

// bare is the archive for krew, which has the program and its licence only.
const bare = "kubectl-setpoint"

// ours is the path of the module of this repository, and the prefix of nested modules.
const ours = "github.com/setpoint-dev/setpoint"

// download is the URL of the files of a release.
const download = "https://" + ours + "/releases/download/"

// maxFile bounds a file of an archive. The largest are programs of a hundred megabytes.
const maxFile = 1 << 30

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: check FOLDER [SYSTEM_ARCHITECTURE...]")
		os.Exit(2)
	}
	wanted := os.Args[2:]
	if len(wanted) == 0 {
		wanted = systems
	}
	if err := check(os.Args[1], wanted); err != nil {
		fmt.Fprintf(os.Stderr, "problems of the release in %s:\n%v\n", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Printf("The release in %s is whole: %s.\n", os.Args[1], strings.Join(wanted, ", "))
}

// release is a release in a folder.
type release struct {
	folder  fs.FS
	version string            // 1.2.3
	sums    map[string]string // of files, by their names
	// holds has the names of each archive's files, by the name of the archive.
	holds map[string][]string
	errs  []error
}

func (r *release) wrong(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// check returns all problems of a release for these systems.
func check(folder string, wanted []string) error {
	r := &release{folder: os.DirFS(folder), sums: map[string]string{}, holds: map[string][]string{}}
	var metadata struct{ Version string }
	text, err := fs.ReadFile(r.folder, "metadata.json")
	if err == nil {
		err = json.Unmarshal(text, &metadata)
	}
	if err != nil {
		return fmt.Errorf("metadata.json: %w", err)
	}
	r.version = metadata.Version
	r.checksums()
	for _, system := range wanted {
		if !slices.Contains(systems, system) {
			r.wrong("%s is none of %v", system, systems)
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(archives)) {
			r.archive(kind, system)
		}
		if name, architecture, _ := strings.Cut(system, "_"); name == "linux" {
			r.packages(architecture)
		}
	}
	r.krew(wanted)
	r.formula(wanted)
	return errors.Join(r.errs...)
}

// checksums compares checksums.txt with the files. It names each file that people download.
func (r *release) checksums() {
	text, err := fs.ReadFile(r.folder, "checksums.txt")
	if err != nil {
		r.wrong("%w", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			r.wrong("checksums.txt: %q is no sum and name", line)
			continue
		}
		r.sums[name] = sum
		if got, err := r.sum(name); err != nil {
			r.wrong("checksums.txt: %w", err)
		} else if got != sum {
			r.wrong("checksums.txt: the sum of %s is %s, not %s", name, got, sum)
		}
	}
	for _, pattern := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.cdx.json"} {
		names, _ := fs.Glob(r.folder, pattern)
		for _, name := range names {
			if r.sums[name] == "" {
				r.wrong("checksums.txt has no %s", name)
			}
		}
	}
}

func (r *release) sum(name string) (string, error) {
	file, err := r.folder.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// entry is a file of an archive.
type entry struct {
	mode    fs.FileMode
	when    time.Time
	content []byte
}

// archive checks the files and programs of an archive.
func (r *release) archive(kind, system string) {
	os, architecture, _ := strings.Cut(system, "_")
	name, suffix := fmt.Sprintf("%s_%s_%s.tar.gz", kind, r.version, system), ""
	unpack := unpackTar
	if os == "windows" {
		name, suffix, unpack = strings.TrimSuffix(name, "tar.gz")+"zip", ".exe", unpackZip
	}
	text, err := fs.ReadFile(r.folder, name)
	if err != nil {
		r.wrong("%w", err)
		return
	}
	entries, err := unpack(text)
	if err != nil {
		r.wrong("%s: %w", name, err)
		return
	}
	r.holds[name] = slices.Sorted(maps.Keys(entries))
	for _, want := range contents(kind, suffix) {
		if len(entries[want].content) == 0 {
			r.wrong("%s has no %s, or an empty one", name, want)
		}
	}
	var when time.Time
	for _, inside := range r.holds[name] {
		e := entries[inside]
		if path.IsAbs(inside) || !fs.ValidPath(inside) || strings.Contains(inside, `\`) {
			r.wrong("%s: %s leads out of the folder that it is unpacked in", name, inside)
		}
		if when.IsZero() {
			when = e.when
		}
		if !e.when.Equal(when) {
			r.wrong("%s: %s is of %v, other files of %v: all are to be the commit's", name, inside, e.when, when)
		}
		if program := slices.Contains(archives[kind], strings.TrimSuffix(inside, suffix)); program != (e.mode&0o111 != 0) || e.mode&0o022 != 0 {
			r.wrong("%s: %s has mode %v", name, inside, e.mode)
		}
	}
	for _, program := range archives[kind] {
		r.program(name, program, os, architecture, entries[program+suffix].content)
	}
}

// contents are the files of an archive.
func contents(kind, suffix string) []string {
	out := []string{"LICENSE", "THIRD_PARTY_LICENSES", "CHANGELOG.md"}
	for _, program := range archives[kind] {
		out = append(out, program+suffix)
		if kind == bare {
			continue
		}
		out = append(out, "man/man1/"+program+".1.gz")
		for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
			out = append(out, "completions/"+program+"/"+shell)
		}
	}
	return out
}

// program checks the version of a program and its bill of materials.
func (r *release) program(archive, name, os, architecture string, content []byte) {
	if content == nil {
		return // said already
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		r.wrong("%s: %s: %w", archive, name, err)
		return
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != os || settings["GOARCH"] != architecture || settings["CGO_ENABLED"] != "0" {
		r.wrong("%s: %s is for %s/%s, with CGO_ENABLED=%s", archive, name, settings["GOOS"], settings["GOARCH"], settings["CGO_ENABLED"])
	}
	if settings["-trimpath"] != "true" {
		r.wrong("%s: %s names the folder that it was built in", archive, name)
	}
	file := fmt.Sprintf("%s_%s_%s_%s.cdx.json", name, r.version, os, architecture)
	var bill struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, PURL string }
	}
	text, err := fs.ReadFile(r.folder, file)
	if err == nil {
		err = json.Unmarshal(text, &bill)
	}
	if err != nil {
		r.wrong("%s: %w", file, err)
		return
	}
	if bill.BOMFormat != "CycloneDX" || bill.SpecVersion == "" || strings.TrimPrefix(bill.Metadata.Component.Version, "v") != r.version {
		r.wrong("%s is of %s %s, for version %q", file, bill.BOMFormat, bill.SpecVersion, bill.Metadata.Component.Version)
	}
	listed := map[string]bool{}
	for _, c := range bill.Components {
		listed[c.Name+" "+c.Version] = true
		if c.Version == "" || !strings.HasPrefix(c.PURL, "pkg:golang/") {
			r.wrong("%s: %s has version %q and purl %q", file, c.Name, c.Version, c.PURL)
		}
	}
	for _, module := range info.Deps {
		if module.Path == ours || strings.HasPrefix(module.Path, ours+"/") {
			continue
		}
		version := module.Version
		if module.Replace != nil {
			version = module.Replace.Version
		}
		if !listed[module.Path+" "+version] {
			r.wrong("%s lacks %s %s, which the program is linked with", file, module.Path, version)
		}
	}
}

// packages checks that the Linux packages exist; scripts/test-packages.sh installs them.
func (r *release) packages(architecture string) {
	rpm := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[architecture]
	for _, name := range archives["setpoint"] {
		for _, pattern := range []string{name + "_[0-9]*_" + architecture + ".deb", name + "-[0-9]*." + rpm + ".rpm"} {
			if found, _ := fs.Glob(r.folder, pattern); len(found) != 1 {
				r.wrong("of packages %s there are %q", pattern, found)
			}
		}
	}
}

// plugin is the manifest of krew.
type plugin struct {
	APIVersion, Kind string
	Metadata         struct{ Name string }
	Spec             struct {
		Version, Homepage, ShortDescription, Description string
		Platforms                                        []struct {
			URI, SHA256, Bin string
			Selector         struct{ MatchLabels map[string]string }
			Files            []struct{ From, To string }
		}
	}
}

// krew repeats krew's own validation, and checks that each archive exists.
func (r *release) krew(wanted []string) {
	const file = "krew/setpoint.yaml"
	var p plugin
	text, err := fs.ReadFile(r.folder, file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &p)
	}
	if err != nil {
		r.wrong("%s: %w", file, err)
		return
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "setpoint" || p.Spec.Version != "v"+r.version {
		r.wrong("%s is a %s of %s, called %s, of version %s", file, p.Kind, p.APIVersion, p.Metadata.Name, p.Spec.Version)
	}
	if s := p.Spec.ShortDescription; s == "" || strings.ContainsAny(s, "\r\n") || len(s) > 50 || strings.HasSuffix(s, ".") || p.Spec.Description == "" || p.Spec.Homepage == "" {
		r.wrong("%s: krew's index wants a short description of a line of up to 50 characters without a period, a description and a homepage; the first is %q", file, s)
	}
	var seen []string
	for _, platform := range p.Spec.Platforms {
		system := platform.Selector.MatchLabels["os"] + "_" + platform.Selector.MatchLabels["arch"]
		seen = append(seen, system)
		suffix := ""
		if strings.HasPrefix(system, "windows_") {
			suffix = ".exe"
		}
		archive := r.downloaded(file, platform.URI, platform.SHA256)
		if !strings.HasPrefix(archive, bare+"_"+r.version+"_"+system+".") {
			r.wrong("%s: %s gets %s", file, system, archive)
		}
		if platform.Bin != bare+suffix || archive != "" && !slices.Contains(r.holds[archive], platform.Bin) {
			r.wrong("%s: %s starts %s, of an archive with %q", file, system, platform.Bin, r.holds[archive])
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, slices.Sorted(slices.Values(wanted))) {
		r.wrong("%s has platforms %v, not %v", file, seen, wanted)
	}
}

// downloaded returns the name of a referenced file, if it exists and has the checksum.
func (r *release) downloaded(by, uri, sum string) string {
	name, ok := strings.CutPrefix(uri, download+"v"+r.version+"/")
	if !ok {
		r.wrong("%s: %s is no file of this release", by, uri)
		return ""
	}
	if r.sums[name] == "" || r.sums[name] != sum {
		r.wrong("%s: %s has the sum %s there, and %q in checksums.txt", by, name, sum, r.sums[name])
		return ""
	}
	return name
}

var (
	downloads = regexp.MustCompile(`url "([^"]+)"\s+sha256 "([^"]+)"`)
	installed = regexp.MustCompile(`(?m)\.install "([^"]+)"`)
)

// formula checks the downloads of Homebrew's formula, and the files that it installs. It does not check
// the formula's Ruby.
func (r *release) formula(wanted []string) {
	const file = "setpoint.rb"
	text, err := fs.ReadFile(r.folder, file)
	if err != nil {
		r.wrong("%w", err)
		return
	}
	var seen []string
	for _, match := range downloads.FindAllStringSubmatch(string(text), -1) {
		archive := r.downloaded(file, match[1], match[2])
		if archive == "" {
			continue
		}
		system := strings.TrimSuffix(strings.TrimPrefix(archive, "setpoint_"+r.version+"_"), ".tar.gz")
		seen = append(seen, system)
		for _, match := range installed.FindAllStringSubmatch(string(text), -1) {
			for _, program := range archives["setpoint"] {
				if name := strings.ReplaceAll(match[1], "#{program}", program); !slices.Contains(r.holds[archive], name) {
					r.wrong("%s installs %s, which %s does not have", file, name, archive)
				}
			}
		}
	}
	var want []string
	for _, system := range wanted {
		if !strings.HasPrefix(system, "windows_") {
			want = append(want, system)
		}
	}
	slices.Sort(want)
	slices.Sort(seen)
	if !slices.Equal(seen, want) {
		r.wrong("%s has %v, not %v", file, seen, want)
	}
}

func unpackTar(text []byte) (map[string]entry, error) {
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg || h.Uid != 0 || h.Gid != 0 {
			return nil, fmt.Errorf("%s is of type %c and user %d, group %d: want files of root's", h.Name, h.Typeflag, h.Uid, h.Gid)
		}
		content, err := io.ReadAll(io.LimitReader(files, maxFile))
		if err != nil {
			return nil, err
		}
		out[h.Name] = entry{h.FileInfo().Mode(), h.ModTime, content}
	}
}

func unpackZip(text []byte) (map[string]entry, error) {
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for _, file := range z.File {
		if file.FileInfo().IsDir() {
			continue
		}
		open, err := file.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.LimitReader(open, maxFile))
		if err = errors.Join(err, open.Close()); err != nil {
			return nil, err
		}
		out[filepath.ToSlash(file.Name)] = entry{file.Mode(), file.Modified, content}
	}
	return out, nil
}
