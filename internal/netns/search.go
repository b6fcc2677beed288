// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// search finds network namespaces by what refers to them in /proc. Each is looked into once.
type search struct {
	// look returns the namespace at path if it is that of the inode, and nil if it is not, or
	// not any more. Nil: only the namespaces of threads are found, and not looked into.
	look func(path string, inode uint64) (*Place, error)
	// places are those that were found, by inode.
	places map[uint64]*Place
	// tables are the mount tables that were read, by mount namespace and root directory.
	tables map[string]bool
	// hidden are the mounts that no path leads to.
	hidden map[uint64]string
	errs   []error
}

// processes searches all processes, after the caller's mounts: their paths mean more to a reader.
func (s *search) processes() {
	s.tables, s.hidden = map[string]bool{}, map[uint64]string{}
	s.thread(self, false)
	for _, pid := range s.numbers("/proc") {
		process := "/proc/" + pid
		for _, tid := range s.numbers(process + "/task") {
			s.thread(process+"/task/"+tid, tid == pid || s.look != nil && !sharesFiles(pid, tid))
		}
	}
}

const self = "/proc/thread-self"

// thread searches a thread, and if so the descriptors that it has open.
func (s *search) thread(task string, descriptors bool) {
	s.add(task+"/ns/net", s.readlink(task+"/ns/net"))
	if s.look == nil {
		return
	}
	table := s.readlink(task+"/ns/mnt") + " " + s.readlink(task+"/root")
	if !s.tables[table] {
		s.tables[table] = s.mounts(task)
	}
	if descriptors {
		s.descriptors(task + "/fd")
	}
}

// add adds the namespace at a path, which has a name such as "net:[4026531840]". Nil: it is
// not there.
func (s *search) add(path, name string) *Place {
	inode, ok := inodeNamed(name)
	if !ok || s.places[inode] != nil {
		return s.places[inode]
	}
	place := &Place{Path: path, Inode: inode}
	if s.look != nil {
		seen, err := s.look(path, inode)
		if err != nil {
			s.errs = append(s.errs, err)
		} else if seen == nil {
			return nil
		} else {
			place = seen
		}
	}
	s.places[inode] = place
	return place
}

func inodeNamed(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "net:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(digits, "]"), 10, 64)
	return inode, ok && err == nil
}

// mounts adds the namespaces that are mounted where a thread is. False: it has ended.
func (s *search) mounts(task string) bool {
	table, err := os.ReadFile(task + "/mountinfo")
	if ended(err) {
		return false
	}
	if err != nil {
		s.errs = append(s.errs, err)
		return true
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[3], "net:[") {
			continue
		}
		mount := unescape(fields[4])
		path := mount
		if task != self {
			path = task + "/root" + mount
		}
		place := s.add(path, fields[3])
		switch inode, _ := inodeNamed(fields[3]); {
		case place == nil:
			s.hidden[inode] = mount
		case !slices.Contains(place.Mounts, mount):
			place.Mounts = append(place.Mounts, mount)
		}
	}
	return true
}

// unescape decodes a path of a mount table, in which blanks are octal, as in "\040".
func unescape(path string) string {
	parts := strings.Split(path, `\`)
	text := parts[0]
	for _, part := range parts[1:] {
		c, err := strconv.ParseUint(part[:min(3, len(part))], 8, 8)
		if err != nil {
			return path
		}
		text += string([]byte{byte(c)}) + part[3:]
	}
	return text
}

func (s *search) descriptors(dir string) {
	file, err := os.Open(dir)
	if err == nil {
		defer file.Close() //nolint:errcheck // only read
		var names []string
		names, err = file.Readdirnames(-1)
		buffer := make([]byte, 64) // a name that is longer is not a namespace's
		for _, name := range names {
			n, err := unix.Readlinkat(int(file.Fd()), name, buffer)
			target := string(buffer[:max(n, 0)])
			if err == nil && target == "/" { // also that of a mount that is gone
				target = mounted(dir + "/" + name)
			}
			if strings.HasPrefix(target, "net:[") {
				s.add(dir+"/"+name, target)
			}
		}
	}
	s.fail(err)
}

// mounted returns the name of the namespace that was opened at a mount; empty if it was none.
func mounted(descriptor string) string {
	var of unix.Statfs_t
	var stat unix.Stat_t
	if unix.Statfs(descriptor, &of) != nil || of.Type != unix.NSFS_MAGIC || unix.Stat(descriptor, &stat) != nil {
		return ""
	}
	return fmt.Sprintf("net:[%d]", stat.Ino)
}

// sharesFiles tells whether a thread has the open files of its process.
func sharesFiles(pid, tid string) bool {
	const files = 2 // KCMP_FILES
	p, _ := strconv.ParseUint(pid, 10, 31)
	t, _ := strconv.ParseUint(tid, 10, 31)
	different, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(p), uintptr(t), files, 0, 0, 0)
	return errno == 0 && different == 0
}

func (s *search) numbers(dir string) []string {
	file, err := os.Open(dir)
	if err != nil {
		s.fail(err)
		return nil
	}
	defer file.Close() //nolint:errcheck // only read
	names, err := file.Readdirnames(-1)
	s.fail(err)
	numbers := names[:0]
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			numbers = append(numbers, name)
		}
	}
	return numbers
}

// readlink returns the target; empty for a process that has ended.
func (s *search) readlink(path string) string {
	target, err := settled(func() (string, error) { return os.Readlink(path) })
	s.fail(err)
	return target
}

func (s *search) fail(err error) {
	if err != nil && !ended(err) {
		s.errs = append(s.errs, err)
	}
}

// ended tells whether an error says that a process, or a thread, has ended.
func ended(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// unseen joins the errors of what could not be looked into.
func (s *search) unseen() error {
	errs := s.errs
	for inode, mount := range s.hidden {
		if s.places[inode] == nil {
			errs = append(errs, fmt.Errorf("network namespace net:[%d] is mounted at %s, and another mount hides it", inode, mount))
		}
	}
	return errors.Join(errs...)
}
