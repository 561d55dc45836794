//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A shell is a page's shell: bash, in a copy of the repository, with a network of its own if
// possible.
type shell struct {
	folder     string // its files, and what commands print
	repository string // its copy
	process    *exec.Cmd
	in         io.WriteCloser
	results    chan string
	commands   int
	background []int // the commands that go on
}

// isolation says how pages are kept from each other.
type isolation struct {
	// why there is none, "" if there is.
	missing string
}

// tryIsolation finds out whether namespaces and overlays can be had here.
func tryIsolation(root string) isolation {
	folder, err := os.MkdirTemp("", "setpoint-docs-")
	if err != nil {
		return isolation{missing: err.Error()}
	}
	defer os.RemoveAll(folder)
	command, err := inside(root, folder)
	if err != nil {
		return isolation{missing: err.Error()}
	}
	command.Stdin = strings.NewReader("test -e go.mod\n")
	if said, err := command.CombinedOutput(); err != nil {
		return isolation{missing: fmt.Sprintf("%v %s", err, strings.TrimSpace(string(said)))}
	}
	return isolation{}
}

// inside is bash in namespaces of its own: this program becomes it, as initialize.
func inside(root, folder string) (*exec.Cmd, error) {
	for _, name := range []string{"upper", "work", "repository", "home"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return nil, err
		}
	}
	command := exec.Command("/proc/self/exe", "-inside", root, folder)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return command, nil
}

// initialize makes the page's world in fresh namespaces, and becomes its shell: the first
// process there, with which all others end.
func initialize(root, folder string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	at := func(name string) string { return filepath.Join(folder, name) }
	layers := "lowerdir=" + root + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if err := syscall.Mount("overlay", at("repository"), "overlay", 0, layers); err != nil {
		return fmt.Errorf("an overlay of the repository: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("the loopback interface: %w", err)
	}
	if err := os.Chdir(at("repository")); err != nil {
		return err
	}
	if info, err := os.Lstat(".git"); err == nil && !info.IsDir() { // a worktree's, which names a folder outside of the overlay
		if err := os.Remove(".git"); err != nil {
			return err
		}
		if err := ownGit(root, "."); err != nil {
			return err
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return err
	}
	return syscall.Exec(bash, []string{"bash"}, os.Environ())
}

func loopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// open starts a page's shell. The environment is this process's, with a home of the page's own.
func open(root, folder string, isolated bool, environment []string) (*shell, error) {
	s := &shell{folder: folder, repository: filepath.Join(folder, "repository"), results: make(chan string, 1)}
	var err error
	if isolated {
		s.process, err = inside(root, folder)
	} else {
		s.process, err = beside(root, folder)
	}
	if err != nil {
		return nil, err
	}
	s.process.Env = slices.Concat(environment, []string{"PATH=" + filepath.Join(s.repository, "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(folder, "home"), "TMPDIR=" + filepath.Join(folder, "home")})
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.process.ExtraFiles = []*os.File{tell} // 3
	if s.process.Stderr, err = os.Create(filepath.Join(folder, "shell.txt")); err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	tell.Close()
	go func() {
		defer told.Close()
		defer close(s.results)
		for lines := bufio.NewScanner(told); lines.Scan(); {
			s.results <- lines.Text()
		}
	}()
	return s, nil
}

// beside is bash in a copy of the repository, where namespaces can't be had.
func beside(root, folder string) (*exec.Cmd, error) {
	repository := filepath.Join(folder, "repository")
	for _, name := range []string{repository, filepath.Join(folder, "home")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return nil, err
		}
	}
	if err := copyRepository(root, repository); err != nil {
		return nil, fmt.Errorf("a copy of the repository: %w", err)
	}
	if err := ownGit(root, repository); err != nil {
		return nil, err
	}
	command := exec.Command("bash")
	command.Dir = repository
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return command, nil
}

// copyRepository copies the files that git knows or would add, and the programs in bin.
func copyRepository(root, to string) error {
	listed, err := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join(root, "bin", "setpoint*"))
	if err != nil {
		return err
	}
	for _, program := range programs {
		listed += filepath.Join("bin", filepath.Base(program)) + "\x00"
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		// The index also names what was removed from the work tree, and, as folders, others' repositories.
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = copyFile(filepath.Join(root, name), filepath.Join(to, name), info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a regular file, or a link as a link, with its mode and time, to a folder that
// it makes.
func copyFile(from, to string, info fs.FileInfo) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		leadsTo, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(leadsTo, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, time.Time{}, info.ModTime()))
}

// ownGit gives a copy of the repository its own .git, so that a page can't change the real one.
// Objects are read from the real one, and never written there.
func ownGit(root, copied string) error {
	to, err := filepath.Abs(filepath.Join(copied, ".git"))
	if err != nil {
		return err
	}
	index := ""
	for _, arguments := range [][]string{
		{"clone", "-q", "--bare", "--shared", ".", to}, {"--git-dir=" + to, "config", "core.bare", "false"},
		{"rev-parse", "--git-path", "index"},
	} {
		if index, err = git(root, arguments...); err != nil {
			return fmt.Errorf("a copy of .git: %w", err)
		}
	}
	if index = strings.TrimSuffix(index, "\n"); !filepath.IsAbs(index) {
		index = filepath.Join(root, index)
	}
	info, err := os.Stat(index)
	if err == nil {
		err = copyFile(index, filepath.Join(to, "index"), info)
	}
	if err != nil {
		return fmt.Errorf("a copy of .git: %w", err)
	}
	return nil
}

// git runs git in a folder. An error says what git said, or that there is no git.
func git(folder string, arguments ...string) (string, error) {
	command := exec.Command("git", arguments...)
	command.Dir = folder
	printed, err := command.Output()
	if err != nil {
		said := ""
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			said = ": " + strings.TrimSpace(string(failed.Stderr))
		}
		return "", fmt.Errorf("git %s: %w%s", arguments[0], err, said)
	}
	return string(printed), nil
}

// close ends the shell and all that it started.
func (s *shell) close() {
	s.in.Close()
	if s.process.SysProcAttr.Setpgid {
		_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL)
	}
	_ = s.process.Process.Kill() // the first of its namespace: all others end with it
	_ = s.process.Wait()
}

var errShellEnded = errors.New("the page's shell ended")

// tell sends the shell a line and waits for the number that it answers.
func (s *shell) tell(ctx context.Context, line string) (int, error) {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return 0, errShellEnded
	}
	select {
	case result, ok := <-s.results:
		if !ok {
			return 0, errShellEnded
		}
		return strconv.Atoi(strings.TrimSpace(result))
	case <-ctx.Done():
		return 0, fmt.Errorf("it did not end in time")
	}
}

// output names the file of what a command prints.
func (s *shell) output(command int) string {
	return filepath.Join(s.folder, fmt.Sprintf("%d.txt", command))
}

func (s *shell) write(command string) (script string, err error) {
	s.commands++
	script = filepath.Join(s.folder, fmt.Sprintf("%d.sh", s.commands))
	return script, os.WriteFile(script, []byte(command), 0o600)
}

// run runs a command in the shell itself, so that its settings persist, and returns its exit
// status and output.
func (s *shell) run(ctx context.Context, command string) (status int, printed string, err error) {
	script, err := s.write(command)
	if err != nil {
		return 0, "", err
	}
	status, err = s.tell(ctx, fmt.Sprintf(". '%s' >'%s' 2>&1 </dev/null 3>&-; echo $? >&3", script, s.output(s.commands)))
	return status, s.printed(s.commands), err
}

// start runs a command in the background, and returns its number.
func (s *shell) start(ctx context.Context, command string) (int, error) {
	script, err := s.write(command)
	if err != nil {
		return 0, err
	}
	s.background = append(s.background, s.commands)
	// A process group of its own, which can be ended.
	_, err = s.tell(ctx, fmt.Sprintf("set -m; ( . '%s' ) >'%s' 2>&1 </dev/null 3>&- & job%d=$!; set +m; echo 0 >&3", script, s.output(s.commands), s.commands))
	return s.commands, err
}

// runs says whether a command in the background does.
func (s *shell) runs(ctx context.Context, command int) bool {
	status, err := s.tell(ctx, fmt.Sprintf("kill -0 $job%d 2>/dev/null; echo $? >&3", command))
	return err == nil && status == 0
}

// endBackground stops the background commands, as a terminal would.
func (s *shell) endBackground(ctx context.Context) error {
	for _, command := range s.background {
		if _, err := s.tell(ctx, fmt.Sprintf("kill -INT -- -$job%[1]d 2>/dev/null; wait $job%[1]d 2>/dev/null; echo 0 >&3", command)); err != nil {
			return err
		}
	}
	s.background = nil
	return nil
}

func (s *shell) printed(command int) string {
	text, _ := os.ReadFile(s.output(command))
	return string(text)
}

// within is how long one command may take.
const within = 3 * time.Minute
