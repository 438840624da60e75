package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"syscall"
	"time"
)

// Postgres is a PostgreSQL server with its files in a folder. It ends with this process, however that ends.
type Postgres struct {
	Port   int
	folder string
	bin    string
	as     *syscall.Credential // Who runs it, since PostgreSQL refuses root; nil is the present user.
	server *os.Process
	done   chan error
}

// StartPostgres starts the server in folder, which it fills on first use. Without durable nothing is synced to the disk.
func StartPostgres(ctx context.Context, folder string, durable bool) (*Postgres, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return nil, errors.New("the Debian package postgresql is not installed")
	}
	sort.Strings(found)
	p := &Postgres{folder: folder, bin: found[len(found)-1]}
	if err := p.prepareFolder(); err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err != nil {
		initdb := p.command("initdb", "-D", data, "-U", DatabaseUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		if out, err := initdb.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("initdb: %w: %s", err, out)
		}
	}
	var err error
	// Another process may take a free port before the server does.
	for try := 0; try < 5; try++ {
		if err = p.start(ctx, data, durable); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func (p *Postgres) prepareFolder() error {
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	other, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(other.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(other.Gid)
	if err != nil {
		return err
	}
	p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(p.folder, uid, gid)
}

func (p *Postgres) command(program string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.bin, program), args...)
	command.Dir = p.folder
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	// A signal for the terminal's group of processes is not for the database: it stops last.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Setpgid: true}
	return command
}

func (p *Postgres) start(ctx context.Context, data string, durable bool) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(p.folder, "postgres.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", data, "-k", p.folder, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
		"-c", "shared_buffers=128MB", "-c", "max_wal_size=1GB", "-c", "max_connections=200"}
	if !durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	command := p.command("postgres", args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	started := make(chan error, 1)
	p.done = make(chan error, 1)
	go func() {
		// The death signal comes when the thread ends that started the child, so that thread stays.
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.done <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.server, p.Port = command.Process, port
	for {
		if p.command("pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port)).Run() == nil {
			return nil
		}
		select {
		case err := <-p.done:
			return fmt.Errorf("postgres ended, see %s: %w", log.Name(), err)
		case <-ctx.Done():
			p.Stop()
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Database is where a database of this server is.
func (p *Postgres) Database(name string) Database {
	return Database{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)), User: DatabaseUser, Name: name}
}

// Stop ends the server after its last writes and waits for it.
func (p *Postgres) Stop() {
	if p.server.Signal(syscall.SIGINT) == nil {
		<-p.done
	}
}

// FreePort is a loopback port that nobody listened on a moment ago.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
