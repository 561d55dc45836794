//go:build linux

// The command run executes what the documentation tells its readers to type, page by page,
// against real services, and compares what is printed with what the pages show:
//
//	go run ./test/docs/run             all pages
//	go run ./test/docs/run README.md   only those
//
// CONTRIBUTING.md says how pages are written for it. It wants the programs in bin/, and says
// what it did not run and why. It ends with 1 if a page is not true.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/markdown"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "-inside" {
		fmt.Fprintln(os.Stderr, initialize(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	parallel := flag.Int("parallel", runtime.NumCPU(), "pages at a time")
	keep := flag.Bool("keep", false, "leave the folders of pages, for a look at what went wrong")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	root, err := os.Getwd()
	if err == nil {
		err = run(ctx, root, flag.Args(), *parallel, *keep)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A result is the result of a page.
type result struct {
	name     string
	commands int
	compared int
	left     []string // what was not run or not compared, and why
	wrong    []error
	took     time.Duration
}

func run(ctx context.Context, root string, only []string, parallel int, keep bool) error {
	if _, err := os.Stat(filepath.Join(root, "bin/setpoint")); err != nil {
		return fmt.Errorf("%w: scripts/build.sh bin all builds it", err)
	}
	began := time.Now()
	names := only
	if len(names) == 0 {
		var err error
		if names, err = pages(root); err != nil {
			return err
		}
	}
	isolated := tryIsolation(root)
	if isolated.missing != "" {
		parallel = 1
		fmt.Printf("NOT ISOLATED: %s. Pages run one after the other on this machine's own ports, and fail where something else has them.\n", isolated.missing)
	}
	environment, err := environment()
	if err != nil {
		return err
	}
	results := make([]result, len(names))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = runPage(ctx, root, name, isolated.missing == "", environment, keep)
		})
	}
	group.Wait()
	return report(root, results, time.Since(began))
}

// pages are the readers' pages: all Markdown of the repository except files for machines and
// records of the past.
func pages(root string) ([]string, error) {
	listed, err := git(root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range strings.Fields(listed) {
		// Those below tools/ are parts of pages that are generated.
		if !strings.HasPrefix(name, "docs/decisions/") && !strings.HasPrefix(name, "tools/") && !strings.Contains(name, "testdata/") {
			names = append(names, name)
		}
	}
	return names, nil
}

// environment is the environment of every page's shell.
func environment() ([]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	caches := strings.Fields(string(out))
	if len(caches) != 2 {
		return nil, fmt.Errorf("go env says %q", out)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "SETPOINT_") || slices.Contains([]string{"HOME", "TMPDIR", "KUBECONFIG", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "OLDPWD"}, name)
	})
	return append(kept, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1], "GOPROXY=off", "XDG_CACHE_HOME="+cache,
		"LC_ALL=C.UTF-8", "TERM=dumb", "NO_COLOR=1", "TZ=UTC"), nil
}

func runPage(ctx context.Context, root, name string, isolated bool, environment []string, keep bool) (r result) {
	r.name = name
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	fail := func(line int, err error) { r.wrong = append(r.wrong, fmt.Errorf("%s:%d: %w", name, line, err)) }
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		fail(1, err)
		return r
	}
	todo, wrong := steps(markdown.Parse(source))
	for _, err := range wrong {
		r.wrong = append(r.wrong, fmt.Errorf("%s: %w", name, err))
	}
	if !slices.ContainsFunc(todo, func(s step) bool { return len(s.commands) > 0 && s.notRun == "" }) {
		for _, s := range todo {
			if s.notRun != "" {
				r.left = append(r.left, fmt.Sprintf("line %d is not run: %s", s.line, s.notRun))
			}
		}
		return r
	}
	folder, err := os.MkdirTemp("", "setpoint-docs-")
	if err != nil {
		fail(1, err)
		return r
	}
	if keep {
		fmt.Printf("%s: %s\n", name, folder)
	} else {
		defer os.RemoveAll(folder)
	}
	s, err := open(root, folder, isolated, environment)
	if err != nil {
		fail(1, err)
		return r
	}
	defer s.close()
	given := s.give(ctx, todo)
	for _, one := range todo {
		why := one.notRun
		for _, kit := range one.needs {
			if given[kit] == nil || why != "" {
				continue
			}
			why = fmt.Sprintf("it needs %s: %v", kit, given[kit])
			if mustBeHad(kit) {
				fail(one.line, errors.New(why))
				return r
			}
		}
		if why != "" {
			r.left = append(r.left, fmt.Sprintf("line %d is not run: %s", one.line, why))
			continue
		}
		if !r.step(ctx, s, one, fail) {
			return r
		}
	}
	return r
}

// mustBeHad reports whether a page without a kit fails: the service is required, and in CI
// everything is. An omission must not look like a pass.
func mustBeHad(kit string) bool { return kit == "service" || os.Getenv("CI") != "" }

// step does one step, and says whether the page goes on.
func (r *result) step(ctx context.Context, s *shell, one step, fail func(int, error)) bool {
	if one.endBackground {
		if err := s.endBackground(ctx); err != nil {
			fail(one.line, err)
			return false
		}
	}
	if one.file != "" {
		// By the shell, which alone sees its copy of the repository.
		if status, printed, err := s.run(ctx, "cat > "+quote(one.file)+" <<'SETPOINT-END-OF-FILE'\n"+one.text+"SETPOINT-END-OF-FILE\n"); err != nil || status != 0 {
			fail(one.line, errors.Join(err, fmt.Errorf("%s could not be written: %s", one.file, printed)))
			return false
		}
		return true
	}
	if one.first != "" {
		if status, printed, err := s.run(ctx, one.first); err != nil || status != 0 {
			fail(one.line, errors.Join(err, fmt.Errorf("first: %s: exit status %d: %s", one.first, status, printed)))
			return false
		}
	}
	if one.until != "" {
		return r.background(ctx, s, one, fail)
	}
	printed := ""
	for i, command := range one.commands {
		bounded, cancel := context.WithTimeout(ctx, within)
		status, out, err := s.run(bounded, command)
		cancel()
		r.commands++
		printed = out
		expected := 0
		if i == len(one.commands)-1 {
			expected = one.status
		}
		if err == nil && status != expected {
			err = fmt.Errorf("exit status %d, not %d", status, expected)
		}
		if err != nil {
			fail(one.line, fmt.Errorf("%w: %s\n%s", err, strings.TrimSpace(command), out))
			return false
		}
	}
	if one.hasOutput {
		r.compare(one, printed, fail)
	}
	return true
}

func (r *result) compare(one step, printed string, fail func(int, error)) {
	if one.notCompared != "" {
		r.left = append(r.left, fmt.Sprintf("line %d is not compared: %s", one.expectedLine, one.notCompared))
		return
	}
	r.compared++
	if err := compare(one.expected, printed, one.json); err != nil {
		fail(one.expectedLine, err)
	}
}

// background starts a step's commands, and waits until they are ready, and have printed what
// the page shows.
func (r *result) background(ctx context.Context, s *shell, one step, fail func(int, error)) bool {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	command, err := s.start(bounded, strings.Join(one.commands, ""))
	r.commands += len(one.commands)
	for err == nil {
		runs := s.runs(bounded, command)
		var status int
		if status, _, err = s.run(bounded, one.until); err == nil && status == 0 {
			break
		}
		if err == nil && !runs {
			err = errors.New("it ended before it was ready")
		}
		pause(bounded)
	}
	if err != nil {
		fail(one.line, fmt.Errorf("«%s» did not succeed: %w; it printed\n%s", one.until, err, s.printed(command)))
		return false
	}
	if one.hasOutput && one.notCompared == "" {
		patient, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		for patient.Err() == nil && compare(one.expected, s.printed(command), one.json) != nil {
			pause(patient)
		}
	}
	if one.hasOutput {
		r.compare(one, s.printed(command), fail)
	}
	return true
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

func quote(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }

// give starts the requirements of the page, and returns why one is missing.
func (s *shell) give(ctx context.Context, todo []step) map[string]error {
	given := map[string]error{}
	for _, one := range todo {
		for _, kit := range one.needs {
			if _, there := given[kit]; there || one.notRun != "" {
				continue
			}
			switch kit {
			case "redis":
				given[kit] = s.ready(ctx, `redis-server --bind 127.0.0.1 --port 6379 --save '' --dir "$HOME"`, `test "$(redis-cli -h 127.0.0.1 ping)" = PONG`)
			case "kubernetes":
				// Where kubectl and agents look by themselves.
				given[kit] = s.ready(ctx, `bin/docs/cluster "$HOME/.kube"`, `test -e "$HOME/.kube/config"`)
				_, _, _ = s.run(ctx, `export PATH="$HOME/.kube/bin:$PATH"`)
			case "nomad":
				given[kit] = s.has(ctx, "nomad")
				_, _, _ = s.run(ctx, "unset AWS_CA_BUNDLE") // with it Nomad's search for a cloud fails
			case "service":
				given[kit] = s.ready(ctx, "setpoint serve --log-format=console", "setpoint health")
			}
		}
	}
	s.background = nil // a page ends what it has started itself
	return given
}

// has puts bin/docs on the PATH, where make test-docs links programs that it has found.
func (s *shell) has(ctx context.Context, program string) error {
	status, _, err := s.run(ctx, `export PATH="$PWD/bin/docs:$PATH" && test -x "$(command -v `+program+`)"`)
	if err == nil && status != 0 {
		err = errors.New("there is no " + program + " on the PATH")
	}
	return err
}

// ready starts a program and waits until it is there.
func (s *shell) ready(ctx context.Context, program, until string) error {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	command, err := s.start(bounded, "exec "+program)
	for err == nil {
		runs := s.runs(bounded, command)
		var status int
		if status, _, err = s.run(bounded, until); err == nil && status == 0 {
			return nil
		}
		if err == nil && !runs {
			return fmt.Errorf("%s ended: %s", program, s.printed(command))
		}
		pause(bounded)
	}
	return err
}

// report prints the results, and writes them to bin/docs/REPORT.txt.
func report(root string, results []result, took time.Duration) error {
	var text strings.Builder
	var commands, compared, left, wrong, ran int
	for _, r := range results {
		commands += r.commands
		compared += r.compared
		left += len(r.left)
		if len(r.wrong) > 0 {
			wrong++
		}
		if r.commands == 0 && len(r.left) == 0 && len(r.wrong) == 0 {
			continue
		}
		ran++
		fmt.Fprintf(&text, "%-40s %3d commands, %2d outputs compared, %5.1f s\n", r.name, r.commands, r.compared, r.took.Seconds())
		for _, why := range r.left {
			fmt.Fprintf(&text, "    %s\n", why)
		}
	}
	for _, r := range results {
		for _, err := range r.wrong {
			fmt.Fprintf(&text, "\nNOT TRUE: %v\n", err)
		}
	}
	fmt.Fprintf(&text, "\n%d of %d pages have commands: %d commands run, %d outputs compared, %d blocks left out for the reasons above, %d pages not true; %.0f s\n",
		ran, len(results), commands, compared, left, wrong, took.Seconds())
	fmt.Print(text.String())
	if err := os.MkdirAll(filepath.Join(root, "bin/docs"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "bin/docs/REPORT.txt"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d pages are not true", wrong)
	}
	return nil
}
