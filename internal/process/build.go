//go:build linux

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Repository returns the root of the working directory's module, or of the module that
// it replaces.
var Repository = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/setpoint-dev/setpoint").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
})

// built keeps the programs' files open: the paths refer to this process' open files, so that
// a build by another process does not change them.
var built struct {
	sync.Mutex
	files map[string]*os.File
}

// Build builds a program of the working tree by scripts/build.sh, which documents the names,
// and returns a path to it that is valid for as long as this process lives. It reuses what
// another process has built from the same sources.
func Build(program string, race bool) (string, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	folder, environment := filepath.Join(root, "bin", "built"), append(os.Environ(), "COMMIT=working-tree") // so that a commit does not link it again
	if race {
		folder, environment = folder+"-race", append(environment, "RACE=1")
	}
	built.Lock()
	defer built.Unlock()
	path := filepath.Join(folder, filepath.Base(program))
	if file := built.files[path]; file != nil {
		return opened(file), nil
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(folder, ".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "build.sh"), folder, program)
	cmd.Env = environment
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, bytes.TrimSpace(output))
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	if built.files == nil {
		built.files = make(map[string]*os.File)
	}
	built.files[path] = file
	return opened(file), nil
}

func opened(file *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd()) }
