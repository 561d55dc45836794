//go:build linux

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// The scripts remove the folder of their temporary Debian, but never anything mounted below it,
// even behind a link.
func TestADebianIsRemovedWithoutWhatIsMounted(t *testing.T) {
	if os.Getuid() != 0 {
		kit.Cannot(t, "mounts need root")
	}
	script, err := filepath.Abs("../../../scripts/debian.sh")
	fatal.If(t, err)
	debian, others, link := filepath.Join(t.TempDir(), "real"), t.TempDir(), filepath.Join(t.TempDir(), "link")
	kept, mounted := filepath.Join(others, "kept"), filepath.Join(debian, "usr", "local", "go")
	for _, err := range []error{os.MkdirAll(mounted, 0o755), os.Symlink(debian, link), os.WriteFile(kept, nil, 0o600)} {
		fatal.If(t, err)
	}
	remove := func(folder string) error {
		return exec.CommandContext(t.Context(), "bash", "-c", `. "$1"; debian_gone "$2"`, "bash", script, folder).Run()
	}
	if err := syscall.Mount(others, mounted, "", syscall.MS_BIND, ""); err != nil {
		kit.Cannot(t, "a bind mount: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(mounted, 0) })
	for _, folder := range []string{debian, link + "/"} {
		if remove(folder) == nil {
			t.Errorf("%s is said to be removed", folder)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Fatalf("what is mounted is removed with %s: %v", folder, err)
		}
	}
	fatal.If(t, syscall.Unmount(mounted, 0))
	if err := remove(debian); err != nil {
		t.Errorf("without mounts: %v", err)
	}
	if _, err := os.Stat(debian); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
