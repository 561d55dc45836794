// Command image builds an image for any architecture: builders run the steps of a Dockerfile for
// another architecture in an emulator, or not at all, but our Dockerfiles have no step to run. It
// prints an archive for docker load:
//
//	image -dockerfile deploy/Dockerfile -context bin/image -architecture arm64 -name setpoint:dev \
//	  -created 2026-01-02T03:04:05Z VERSION=v1.2.3 REVISION=… | docker load
//
// It supports only the instructions of our Dockerfiles, and refuses any other. The same files
// produce the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// image is the content of a Dockerfile, in the form of the image specification.
type image struct {
	Created      string  `json:"created"`
	Architecture string  `json:"architecture"`
	System       string  `json:"os"`
	Config       config  `json:"config"`
	Layers       rootFS  `json:"rootfs"`
	History      []entry `json:"history"`
}

type config struct {
	User         string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	Labels       map[string]string   `json:",omitempty"`
	Healthcheck  *healthcheck        `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
}

// healthcheck has its times in nanoseconds, as they are in the specification.
type healthcheck struct {
	Test        []string
	Interval    time.Duration `json:",omitempty"`
	Timeout     time.Duration `json:",omitempty"`
	StartPeriod time.Duration `json:",omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type entry struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

func main() {
	dockerfile := flag.String("dockerfile", "Dockerfile", "the Dockerfile")
	context := flag.String("context", ".", "the folder that COPY copies from")
	architecture := flag.String("architecture", "amd64", "amd64 or arm64")
	name := flag.String("name", "", "the image's name and tag")
	created := flag.String("created", "1970-01-01T00:00:00Z", "the time of all files, and of the image")
	flag.Parse()
	arguments := map[string]string{"CREATED": *created}
	for _, argument := range flag.Args() {
		key, value, ok := strings.Cut(argument, "=")
		if !ok {
			fmt.Fprintf(os.Stderr, "image: %q is no NAME=VALUE\n", argument)
			os.Exit(2)
		}
		arguments[key] = value
	}
	text, err := os.ReadFile(*dockerfile)
	if err == nil {
		err = write(os.Stdout, string(text), *context, *architecture, *name, arguments)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes the archive. arguments are the values of ARG, including CREATED.
func write(to io.Writer, dockerfile, context, architecture, name string, arguments map[string]string) error {
	created, err := time.Parse(time.RFC3339, arguments["CREATED"])
	if err != nil {
		return err
	}
	when := created.UTC().Format(time.RFC3339)
	is := image{Created: when, Architecture: architecture, System: "linux"}
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	made := make(map[string]bool) // folders
	declared := make(map[string]string)
	for _, line := range lines(dockerfile) {
		instruction, rest, _ := strings.Cut(line, " ")
		rest, err := expand(strings.TrimSpace(rest), declared)
		if err == nil && instruction == "ARG" {
			err = declare(rest, arguments, declared)
		} else if err == nil {
			err = is.apply(files, made, created, context, instruction, rest)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	for name := range arguments {
		if _, known := declared[name]; !known && name != "CREATED" { // it has its own flag
			return fmt.Errorf("no ARG of the Dockerfile is called %q: it has %q", name, slices.Sorted(maps.Keys(declared)))
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	is.Layers = rootFS{"layers", []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}}
	is.History = []entry{{when, "tools/image"}}
	settings, err := json.Marshal(is)
	if err != nil {
		return err
	}
	settingsName := fmt.Sprintf("%x.json", sha256.Sum256(settings))
	manifest, err := json.Marshal([]map[string]any{{"Config": settingsName, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(to)
	for _, file := range []struct {
		name    string
		content []byte
	}{{settingsName, settings}, {"layer.tar", layer.Bytes()}, {"manifest.json", manifest}} {
		if err := put(archive, file.name, 0o644, created, file.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// declare handles «ARG NAME» and «ARG NAME=default».
func declare(rest string, arguments, declared map[string]string) error {
	name, value, hasDefault := strings.Cut(rest, "=")
	if given, ok := arguments[name]; ok {
		value = given
	} else if !hasDefault {
		return fmt.Errorf("%s has no value: give %s=VALUE", name, name)
	}
	declared[name] = value
	return nil
}

// expand fills in arguments. It refuses undeclared ones, which builders would treat as empty: an
// image without its version looks like any other.
func expand(text string, declared map[string]string) (string, error) {
	var unknown []string
	text = os.Expand(text, func(name string) string {
		value, ok := declared[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return value
	})
	if unknown != nil {
		return "", fmt.Errorf("no ARG before it declares %q: there is %q", unknown, slices.Sorted(maps.Keys(declared)))
	}
	return text, nil
}

// lines returns a Dockerfile's instructions, without comments and with continuation
// lines joined.
func lines(dockerfile string) []string {
	var all []string
	whole := ""
	for line := range strings.Lines(dockerfile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if more, goesOn := strings.CutSuffix(line, `\`); goesOn {
			whole += more
			continue
		}
		all, whole = append(all, whole+line), ""
	}
	return all
}

// apply executes an instruction.
func (is *image) apply(files *tar.Writer, made map[string]bool, created time.Time, context, instruction, rest string) error {
	switch instruction {
	case "FROM":
		if rest != "scratch" {
			return fmt.Errorf("only images from scratch are supported")
		}
	case "STOPSIGNAL":
		is.Config.StopSignal = rest
	case "USER":
		is.Config.User = rest
	case "EXPOSE":
		is.Config.ExposedPorts = make(map[string]struct{})
		for port := range strings.FieldsSeq(rest) {
			is.Config.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &is.Config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &is.Config.Cmd)
	case "LABEL":
		is.Config.Labels = make(map[string]string)
		for rest != "" {
			key, quoted, _ := strings.Cut(rest, `="`)
			value, after, ended := strings.Cut(quoted, `"`)
			if !ended {
				return fmt.Errorf("labels are key=\"value\"")
			}
			is.Config.Labels[strings.TrimSpace(key)], rest = value, strings.TrimSpace(after)
		}
	case "HEALTHCHECK":
		return is.check(rest)
	case "COPY":
		words := strings.Fields(rest)
		if len(words) < 2 {
			return fmt.Errorf("COPY takes a source and a destination")
		}
		to := words[len(words)-1]
		for _, pattern := range words[:len(words)-1] {
			if err := add(files, made, created, filepath.Join(context, pattern), to); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("this instruction is not supported")
	}
	return nil
}

// check parses «--interval=10s --timeout=3s CMD ["/program"]».
func (is *image) check(rest string) error {
	is.Config.Healthcheck = &healthcheck{}
	for {
		word, after, _ := strings.Cut(rest, " ")
		if word == "CMD" {
			var command []string
			err := json.Unmarshal([]byte(after), &command)
			is.Config.Healthcheck.Test = append([]string{"CMD"}, command...)
			return err
		}
		key, value, _ := strings.Cut(word, "=")
		into := map[string]*time.Duration{
			"--interval": &is.Config.Healthcheck.Interval, "--timeout": &is.Config.Healthcheck.Timeout, "--start-period": &is.Config.Healthcheck.StartPeriod,
		}[key]
		if into == nil {
			return fmt.Errorf("%q is not supported", word)
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		*into, rest = d, strings.TrimSpace(after)
	}
}

// add copies the files that match a pattern to a path, or into it if it ends with a
// slash.
func add(files *tar.Writer, made map[string]bool, created time.Time, pattern, to string) error {
	matches, err := filepath.Glob(pattern) // in order
	if err != nil || len(matches) == 0 {
		return fmt.Errorf("there is no %s: %v", pattern, err)
	}
	for _, match := range matches {
		name := to
		if strings.HasSuffix(to, "/") {
			name += filepath.Base(match)
		}
		name = strings.TrimPrefix(name, "/")
		if err := folders(files, made, created, path.Dir(name)); err != nil {
			return err
		}
		info, err := os.Stat(match)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(match)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		if err := put(files, name, mode, created, content); err != nil {
			return err
		}
	}
	return nil
}

// folders adds a folder and its parents, once.
func folders(files *tar.Writer, made map[string]bool, created time.Time, name string) error {
	if name == "." || made[name] {
		return nil
	}
	if err := folders(files, made, created, path.Dir(name)); err != nil {
		return err
	}
	made[name] = true
	return files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: created, Format: tar.FormatUSTAR})
}

func put(into *tar.Writer, name string, mode int64, created time.Time, content []byte) error {
	if err := into.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := into.Write(content)
	return err
}
