// Command licenses lists what the programs are linked with, and the licences: as the table of
// THIRD_PARTY.md, as the texts in archives and packages, and as the bill of materials of a built
// program.
//
// It is our own tool because the need is small and strict: it identifies licences by their wording,
// and fails on an unknown or forbidden one, so that nothing is linked that the project can't
// redistribute.
//
//	go run . table               # Markdown
//	go run . texts               # all texts, each with the modules that it is of
//	go run . json                # the same, for the next
//	go run . sbom BINARY FILE VERSION COMMIT   # CycloneDX 1.6, JSON: the same bytes for the same binary
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	repository = "../.."
	ours       = "github.com/setpoint-dev/setpoint"
	tags       = "grpcnotrace" // of scripts/mode.sh: no other build is released
)

// systems are those of releases: each may link other modules.
var systems = []string{"linux", "darwin", "windows"}

// component is a module, or a package of npm, that programs are linked with.
type component struct {
	Path, Version string
	// Licenses are SPDX identifiers, sorted.
	Licenses []string
	// Texts are the files of licences and notices, each once.
	Texts []text
}

type text struct{ Name, Text string }

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "table":
		all, err := linked()
		if err != nil {
			return err
		}
		return writeTable(out, all)
	case len(args) == 1 && args[0] == "texts":
		all, err := linked()
		if err != nil {
			return err
		}
		return writeTexts(out, all)
	case len(args) == 1 && args[0] == "json":
		all, err := linked()
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(all)
	case len(args) == 5 && args[0] == "sbom":
		info, err := buildinfo.ReadFile(args[1])
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		var all []component
		if err := json.Unmarshal(raw, &all); err != nil {
			return fmt.Errorf("%s: %w", args[2], err)
		}
		return writeBill(out, program{filepath.Base(info.Path), args[3], args[4]}, info, all)
	}
	return errors.New("usage: licenses table | texts | json | sbom BINARY FILE VERSION COMMIT")
}

// released are the folders of the released programs, by the folder of their module.
func released() (map[string][]string, error) {
	names, err := os.ReadFile(filepath.Join(repository, "cmd/programs/programs.txt"))
	if err != nil {
		return nil, err
	}
	var own []string
	for line := range strings.Lines(string(names)) {
		name, _, _ := strings.Cut(line, " ")
		own = append(own, "./cmd/"+name)
	}
	return map[string][]string{".": own, "cmd/setpoint-external-metrics": {"."}}, nil
}

// linked returns everything that any program is linked with on any system, by path and
// version.
func linked() ([]component, error) {
	type place struct{ path, version, root string }
	folders := map[place]map[string]bool{}
	goroot := ""
	programs, err := released()
	if err != nil {
		return nil, err
	}
	for module, of := range programs {
		for _, system := range systems {
			packages, err := list(filepath.Join(repository, module), system, of)
			if err != nil {
				return nil, err
			}
			for _, p := range packages {
				if p.Standard {
					goroot = p.Root
					continue
				}
				m := p.Module
				if m.Replace != nil {
					m = m.Replace
				}
				if p.Module.Path == ours || strings.HasPrefix(p.Module.Path, ours+"/") {
					continue
				}
				at := place{p.Module.Path, m.Version, m.Dir}
				if folders[at] == nil {
					folders[at] = map[string]bool{}
				}
				folders[at][p.Dir] = true
			}
		}
	}
	all := []component{}
	for at, dirs := range folders {
		c := component{Path: at.path, Version: at.version}
		if err := c.read(at.root, slices.Sorted(maps.Keys(dirs))); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	standard := component{Path: "std"}
	if err := standard.read(goroot, []string{goroot}); err != nil {
		return nil, err
	}
	packages, err := ofPage()
	if err != nil {
		return nil, err
	}
	all = append(append(all, standard), packages...)
	slices.SortFunc(all, func(a, b component) int {
		if a.Path != b.Path {
			return strings.Compare(a.Path, b.Path)
		}
		return strings.Compare(a.Version, b.Version)
	})
	return all, nil
}

// goPackage is a package in the output of `go list`.
type goPackage struct {
	Dir, Root string
	Standard  bool
	Module    *goModule
}

type goModule struct {
	Path, Version, Dir string
	Replace            *goModule
}

// list returns the packages that programs are linked with on a system.
func list(folder, system string, programs []string) ([]goPackage, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Root,Standard,Module", "-tags=" + tags}, programs...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", folder, err, problem.Bytes())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

var (
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([.-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|copyright|patents)([.-].*)?$`)
	// apart matches licences of other things than code.
	apart = regexp.MustCompile(`(?i)^license[.-](docs|logo|documentation)$`)
)

// read finds licences and notices in the folders and in their parents, up to the root: a
// module may contain third-party code, with its licence beside it.
func (c *component) read(root string, folders []string) error {
	seen, licenses, texts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, folder := range folders {
		for ; strings.HasPrefix(folder, root) && !seen[folder]; folder = filepath.Dir(folder) {
			seen[folder] = true
			entries, err := os.ReadDir(folder)
			if err != nil {
				return err
			}
			for _, entry := range entries {
				name := entry.Name()
				isLicense := licenseFile.MatchString(name) && !apart.MatchString(name) && !strings.HasSuffix(name, ".go")
				if entry.IsDir() || !isLicense && !noticeFile.MatchString(name) || strings.HasSuffix(name, ".go") {
					continue
				}
				file := filepath.Join(folder, name)
				raw, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if isLicense {
					found := identify(string(raw))
					if len(found) == 0 {
						return fmt.Errorf("%s: no known and allowed licence; add its wording to tools/licenses/identify.go if the project may pass it on, or do without %s", file, c.Path)
					}
					for _, id := range found {
						licenses[id] = true
					}
				}
				relative, err := filepath.Rel(root, file)
				if err != nil {
					return err
				}
				if t := strings.TrimSpace(string(raw)); !texts[t] {
					texts[t] = true
					c.Texts = append(c.Texts, text{filepath.ToSlash(relative), t})
				}
			}
		}
	}
	if len(licenses) == 0 {
		return fmt.Errorf("%s %s has no licence: do without it", c.Path, c.Version)
	}
	c.Licenses = slices.Sorted(maps.Keys(licenses))
	slices.SortFunc(c.Texts, func(a, b text) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// ofPage returns the npm packages that are bundled into the web page: those of the lock file that
// are not for development only. The lock file names their licences; the texts, which their authors
// require, are in the folder npm beside this file, because nothing here runs npm.
func ofPage() ([]component, error) {
	raw, err := os.ReadFile(filepath.Join(repository, "web/package-lock.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License    string
			Dev, Optional, Peer bool
		}
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		return nil, fmt.Errorf("web/package-lock.json: %w", err)
	}
	var all []component
	for path, p := range lock.Packages {
		_, name, isPackage := strings.Cut(path, "node_modules/")
		if !isPackage || p.Dev || p.Optional || p.Peer {
			continue
		}
		if i := strings.LastIndex(name, "node_modules/"); i >= 0 {
			name = name[i+len("node_modules/"):]
		}
		if !allowed(p.License) {
			return nil, fmt.Errorf("web/package-lock.json: %s has the licence %q, which is not on the list of tools/licenses/identify.go", name, p.License)
		}
		c := component{Path: "npm:" + name, Version: p.Version, Licenses: []string{p.License}}
		file := filepath.Join("npm", strings.ReplaceAll(name, "/", "__")+".txt")
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the web page is bundled with %s: copy the LICENSE of its package to tools/licenses/%s: %w", name, filepath.ToSlash(file), err)
		}
		c.Texts = []text{{"LICENSE", strings.TrimSpace(string(raw))}}
		all = append(all, c)
	}
	return all, nil
}
