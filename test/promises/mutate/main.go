// Command mutate takes the mends of promises out, one after the other, and sees the tests fail
// that hold them. It changes no file: the compiler gets each change as an overlay.
//
//	go run ./test/promises/mutate               # all
//	go run ./test/promises/mutate -part=2/4     # each fourth, from the second one on
//	go run ./test/promises/mutate -run=revoked  # those whose promise, test or file matches
//
// Run it in the repository's root. It exits with 1 if a test passes without its mend, or fails
// with it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/test/promises"
)

// A test that hangs without its mend has failed. Compiling takes a while on a busy machine.
const buildTime, testTime = 15 * time.Minute, 6 * time.Minute

// tries are the runs of a test in which a promise is seen to hold: what a mend keeps from happening may need
// a race that a busy machine does not run each time. A later run is told.
const tries = 3

func main() {
	part := flag.String("part", "1/1", "`K/N`: only each N-th, from the K-th on")
	pattern := flag.String("run", "", "only those whose promise, test or file matches")
	flag.Parse()
	if err := run(*part, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// job is a mutation, with the folder of its test.
type job struct {
	promises.Mutation
	folder string
}

func run(part, pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	var k, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || k < 1 || n < k {
		return fmt.Errorf("-part=%s: want K/N, K from 1 to N", part)
	}
	all, err := promises.Read(".")
	if err != nil {
		return err
	}
	var jobs []job
	for i, m := range promises.Mutations {
		if i%n != k-1 || !matches.MatchString(m.Promise+" "+m.Test+" "+m.File) {
			continue
		}
		folder, err := m.Folder(all)
		if err != nil {
			return err
		}
		jobs = append(jobs, job{m, folder})
	}
	if len(jobs) == 0 {
		return errors.New("no mutation is like that")
	}
	temporary, err := os.MkdirTemp("", "setpoint-mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	slices.SortStableFunc(jobs, func(a, b job) int { return strings.Compare(a.folder, b.folder) })
	began, problems := time.Now(), []string(nil)
	for len(jobs) > 0 {
		same := slices.IndexFunc(jobs, func(j job) bool { return j.folder != jobs[0].folder })
		if same < 0 {
			same = len(jobs)
		}
		problems = append(problems, inFolder(jobs[:same], temporary)...)
		jobs = jobs[same:]
	}
	fmt.Printf("%s%d problems, %v\n", strings.Join(problems, ""), len(problems), time.Since(began).Round(time.Second))
	if len(problems) > 0 {
		return errors.New("a promise is not held by its test: see above")
	}
	return nil
}

// inFolder runs the tests of a folder as they are, then each without its mend.
func inFolder(jobs []job, temporary string) (problems []string) {
	tell := func(j job, format string, args ...any) {
		problem := fmt.Sprintf("NOT HELD | %s | %s: %s | %s\n", j.Promise, j.File, oneLine(j.Mend), fmt.Sprintf(format, args...))
		fmt.Print(problem)
		problems = append(problems, problem)
	}
	program := filepath.Join(temporary, "test")
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Test
	}
	output, asItIs := build(jobs[0].folder, program, "")
	if asItIs == nil {
		for range tries {
			if output, asItIs = test(jobs[0].folder, program, "", names...); asItIs == nil {
				break
			}
		}
	}
	for _, j := range jobs {
		began := time.Now()
		if asItIs != nil && !bytes.Contains(output, []byte("--- PASS: "+j.Test+" ")) {
			tell(j, "%s fails as it is: %s", j.Test, last(output))
			continue
		}
		if !bytes.Contains(output, []byte("--- PASS: "+j.Test+" ")) {
			tell(j, "%s was not run, or skipped: %s", j.Test, last(output))
			continue
		}
		overlay, err := j.overlay(temporary)
		if err != nil {
			tell(j, "%v", err)
			continue
		}
		if output, err := build(j.folder, program, overlay); err != nil {
			tell(j, "it does not compile: %s", last(output))
			continue
		}
		passed, without := 0, []byte(nil)
		for ; passed < tries; passed++ {
			if without, err = test(j.folder, program, overlay, j.Test); err != nil {
				break
			}
		}
		if passed == tries {
			tell(j, "%s passes without it, %d times: %s", j.Test, tries, last(without))
			continue
		}
		held := "held"
		if passed > 0 {
			held = fmt.Sprintf("held at try %d", passed+1)
		}
		fmt.Printf("%s | %s | %s: %s | %s %s | %.1f s\n", held, j.Promise, j.File, oneLine(j.Mend), j.folder, j.Test, time.Since(began).Seconds())
	}
	return problems
}

// overlay writes the changed file, and what says so to the compiler.
func (j *job) overlay(temporary string) (string, error) {
	changed, err := j.Apply(".")
	if err != nil {
		return "", err
	}
	file, err := filepath.Abs(j.File)
	if err != nil {
		return "", err
	}
	path, overlay := filepath.Join(temporary, "changed.go"), filepath.Join(temporary, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: path}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(path, changed, 0o600), os.WriteFile(overlay, text, 0o600))
}

// build compiles a folder's tests.
func build(folder, program, overlay string) ([]byte, error) {
	return command(buildTime, folder, overlay, "go", "test", "-c", "-vet=off", "-o="+program, ".")
}

// test runs tests. Programs that they build have the overlay, too.
func test(folder, program, overlay string, names ...string) ([]byte, error) {
	return command(testTime+10*time.Second, folder, overlay, program, "-test.v", "-test.failfast", "-test.timeout="+testTime.String(),
		"-test.run=^("+strings.Join(names, "|")+")$")
}

func command(within time.Duration, folder, overlay, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = folder, time.Second
	cmd.Env = append(os.Environ(), "GUARD=1") // tests that measure hold promises, too
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	return cmd.CombinedOutput()
}

// oneLine is code for a table.
func oneLine(code string) string {
	text := []rune(strings.Join(strings.Fields(code), " "))
	return string(text[:min(len(text), 100)])
}

// last is the end of an output.
func last(output []byte) string {
	output = bytes.TrimSpace(output)
	return "…" + oneLine(string(output[max(0, len(output)-100):]))
}
