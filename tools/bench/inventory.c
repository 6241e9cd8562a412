#include "tools/bench/inventory.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <rdma/fabric.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBFABRIC_SECONDS_MAX 20
#define NOTES_BYTES_MAX       65536

/* ---- small files of /proc and /sys ---- */

/* The first line, without its end. False: there is none. */
static bool
line_read(const char *path, char *line, size_t line_bytes)
{
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(line, (int)line_bytes, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    if (good) {
        line[strcspn(line, "\n")] = '\0';
    }
    return good && line[0] != '\0';
}

static void
set_line(json_t *object, const char *name, const char *path)
{
    char line[4096];
    if (line_read(path, line, sizeof(line))) {
        json_object_set_new(object, name, json_string(line));
    }
}

static void
set_number(json_t *object, const char *name, const char *path)
{
    char line[64];
    if (line_read(path, line, sizeof(line))) {
        json_object_set_new(object, name, json_integer(strtoll(line, NULL, 10)));
    }
}

/* The last part of what a link points to. */
static void
set_link(json_t *object, const char *name, const char *path)
{
    char target[512];
    ssize_t bytes = readlink(path, target, sizeof(target) - 1);
    if (bytes > 0) {
        target[bytes] = '\0';
        const char *slash = strrchr(target, '/');
        json_object_set_new(object, name, json_string(slash != NULL ? slash + 1 : target));
    }
}

/* "name: value" or NAME=value of a file with one a line; quotes around the value go. */
static void
set_field(json_t *object, const char *name, const char *path, const char *field)
{
    char line[4096];
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, field, strlen(field)) != 0) {
            continue;
        }
        char *value = line + strlen(field);
        value += strspn(value, "\t =:\"");
        value[strcspn(value, "\"\n")] = '\0';
        json_object_set_new(object, name, json_string(value));
        break;
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* ---- the parts ---- */

/* What the program was started with: it pins itself later. */
static void
set_allowed(json_t *cpus)
{
    char list[4096] = "";
    size_t used = 0;
    uint32_t count = machine_cpu_count();
    for (uint32_t i = 0, last; i < count && used + 32 < sizeof(list); i = last + 1) {
        for (last = i; last + 1 < count && machine_cpu(last + 1) == machine_cpu(last) + 1; last++) {
        }
        used += (size_t)snprintf(list + used, sizeof(list) - used, last > i ? "%s%d-%d" : "%s%d", i > 0 ? "," : "",
                                 machine_cpu(i), machine_cpu(last));
    }
    json_object_set_new(cpus, "allowed", json_string(list));
}

static json_t *
cpus_describe(void)
{
    json_t *cpus = json_object();
    set_field(cpus, "model", "/proc/cpuinfo", "model name");
    if (json_object_get(cpus, "model") == NULL) {
        set_field(cpus, "part", "/proc/cpuinfo", "CPU part");
        set_field(cpus, "implementer", "/proc/cpuinfo", "CPU implementer");
    }
    set_line(cpus, "online", "/sys/devices/system/cpu/online");
    set_allowed(cpus);
    set_line(cpus, "isolated", "/sys/devices/system/cpu/isolated");
    set_line(cpus, "smt", "/sys/devices/system/cpu/smt/control");
    set_line(cpus, "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    set_line(cpus, "clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    return cpus;
}

/* One object for each entry of a folder that `describe` finds worth it. */
static json_t *
folder_describe(const char *folder, json_t *(*describe)(const char *folder, const char *name))
{
    json_t *list = json_array();
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        json_t *one = entries[i]->d_name[0] == '.' ? NULL : describe(folder, entries[i]->d_name);
        if (one != NULL) {
            json_array_append_new(list, one);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return list;
}

static json_t *
node_describe(const char *folder, const char *name)
{
    char path[512];
    int number;
    if (sscanf(name, "node%d", &number) != 1) {
        return NULL;
    }
    json_t *node = json_pack("{s:i}", "node", number);
    snprintf(path, sizeof(path), "%s/%s/cpulist", folder, name);
    set_line(node, "cpus", path);
    snprintf(path, sizeof(path), "%s/%s/distance", folder, name);
    set_line(node, "distances", path);
    return node;
}

/* Of a network interface or an RDMA device: what is behind it. */
static json_t *
device_describe(const char *folder, const char *name)
{
    static const struct {
        const char *key, *file;
        void (*set)(json_t *, const char *, const char *);
    } parts[] = {
        { "driver", "device/driver", set_link },
        { "bus", "device", set_link },
        { "numa_node", "device/numa_node", set_number },
        { "mtu", "mtu", set_number },
        { "speed_mbit", "speed", set_number },
        { "state", "operstate", set_line },
        { "firmware", "fw_ver", set_line },
    };
    char path[512];
    json_t *device = json_pack("{s:s}", "name", name);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", folder, name, parts[i].file);
        parts[i].set(device, parts[i].key, path);
    }
    return device;
}

/* ---- libfabric ---- */

/* "VERSION\n", then "PROVIDER VERSION\n" for each; again and again for its many endpoints. */
static void
providers_print(FILE *to)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW);
    if (library == NULL) {
        return;
    }
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    char *(*text_of)(const void *, enum fi_type);
    struct fi_info *list = NULL;
    *(void **)&getinfo = dlsym(library, "fi_getinfo");
    *(void **)&text_of = dlsym(library, "fi_tostr");
    if (getinfo == NULL || text_of == NULL) {
        return;
    }
    fprintf(to, "%s\n", text_of("", FI_TYPE_VERSION));
    if (getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &list) != 0) {
        return;
    }
    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        fprintf(to, "%s %u.%u\n", info->fabric_attr->prov_name, FI_MAJOR(info->fabric_attr->prov_version),
                FI_MINOR(info->fabric_attr->prov_version));
    }
}

static json_t *
providers_parse(FILE *from)
{
    char line[256];
    json_t *libfabric = json_object(), *providers = json_object();
    if (fgets(line, sizeof(line), from) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        json_object_set_new(libfabric, "version", json_string(line));
    }
    while (fgets(line, sizeof(line), from) != NULL) {
        char *blank = strchr(line, ' ');
        if (blank != NULL) {
            *blank = '\0';
            blank[strcspn(blank + 1, "\n") + 1] = '\0';
            json_object_set_new(providers, line, json_string(blank + 1));
        }
    }
    json_object_set_new(libfabric, "providers", providers);
    return libfabric;
}

static json_t *
libfabric_describe(void)
{
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDERR_FILENO);
        alarm(LIBFABRIC_SECONDS_MAX); /* a device that hangs must not hang us */
        FILE *to = fdopen(fds[1], "w");
        providers_print(to);
        fflush(to);
        _exit(0);
    }
    close(fds[1]);
    FILE *from = fdopen(fds[0], "r");
    CHECK(from != NULL);
    json_t *libfabric = providers_parse(from);
    fclose(from);
    waitpid(child, NULL, 0);
    return libfabric;
}

/* ---- builds ---- */

/* Of the notes of one segment. */
static bool
build_id_find(const uint8_t *at, size_t bytes, char hex[BUILD_ID_HEX_BYTES])
{
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof(note));
        size_t name = ((size_t)note.n_namesz + 3) / 4 * 4,
               all = sizeof(note) + name + ((size_t)note.n_descsz + 3) / 4 * 4;
        if (all > bytes) {
            return false;
        }
        if (note.n_type == NT_GNU_BUILD_ID && 2 * note.n_descsz < BUILD_ID_HEX_BYTES) {
            for (uint32_t i = 0; i < note.n_descsz; i++) {
                snprintf(hex + 2 * i, 3, "%02x", at[sizeof(note) + name + i]);
            }
            return true;
        }
        at += all;
        bytes -= all;
    }
    return false;
}

void
build_id_read(const char *path, char hex[BUILD_ID_HEX_BYTES])
{
    static uint8_t notes[NOTES_BYTES_MAX];
    ElfW(Ehdr) elf;
    hex[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    bool good = pread(fd, &elf, sizeof(elf), 0) == (ssize_t)sizeof(elf) && memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 &&
                elf.e_phentsize == sizeof(ElfW(Phdr));
    for (uint32_t i = 0; good && i < elf.e_phnum && hex[0] == '\0'; i++) {
        ElfW(Phdr) header;
        good = pread(fd, &header, sizeof(header), (off_t)(elf.e_phoff + i * sizeof(header))) == (ssize_t)sizeof(header);
        if (good && header.p_type == PT_NOTE) {
            ssize_t bytes = pread(fd, notes, MIN(header.p_filesz, sizeof(notes)), (off_t)header.p_offset);
            build_id_find(notes, bytes > 0 ? (size_t)bytes : 0, hex);
        }
    }
    close(fd);
}

void
program_path_beside(const char *name, char *path, size_t path_bytes)
{
    char self[4096];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(bytes > 0);
    self[bytes] = '\0';
    char *slash = strrchr(self, '/');
    CHECK(slash != NULL);
    snprintf(path, path_bytes, "%.*s/%s", (int)(slash - self), self, name);
}

static json_t *
builds_describe(void)
{
    static const char *const names[] = { "sluice-bench", "sluiced", "sluice_fabric.so", "sluice_ethernet.so" };
    json_t *builds = json_pack("{s:s}", "version", SLUICE_VERSION);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[4096], hex[BUILD_ID_HEX_BYTES];
        program_path_beside(names[i], path, sizeof(path));
        build_id_read(path, hex);
        if (hex[0] != '\0') {
            json_object_set_new(builds, names[i], json_string(hex));
        }
    }
    return builds;
}

json_t *
inventory_make(void)
{
    struct utsname system;
    struct sysinfo memory;
    CHECK(uname(&system) == 0 && sysinfo(&memory) == 0);
    json_t *all = json_pack("{s:s,s:s+++++}", "host", system.nodename, "kernel", system.sysname, " ", system.release,
                            " ", system.machine, "");
    set_field(all, "os", "/etc/os-release", "PRETTY_NAME");
    set_line(all, "product", "/sys/class/dmi/id/product_name");
    json_object_set_new(all, "cpus", cpus_describe());
    json_object_set_new(all, "memory_bytes", json_integer((json_int_t)memory.totalram * memory.mem_unit));
    set_number(all, "huge_pages", "/proc/sys/vm/nr_hugepages");
    json_object_set_new(all, "numa", folder_describe("/sys/devices/system/node", node_describe));
    json_object_set_new(all, "network", folder_describe("/sys/class/net", device_describe));
    json_object_set_new(all, "rdma", folder_describe("/sys/class/infiniband", device_describe));
    json_object_set_new(all, "libfabric", libfabric_describe());
    json_object_set_new(all, "builds", builds_describe());
    return all;
}

/* ---- the command ---- */

int
bench_machine(int argc, char **argv)
{
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0;
        FILE *to = help ? stdout : stderr;
        fprintf(to, "Usage: sluice-bench machine\n"
                    "CPUs, nodes, network devices, libfabric's providers and builds, as one JSON object.\n");
        return help ? 0 : BENCH_USAGE_ERROR;
    }
    json_t *all = inventory_make();
    int rc = json_dumpf(all, stdout, JSON_INDENT(2));
    json_decref(all);
    printf("\n");
    return rc == 0 && fflush(stdout) == 0 ? 0 : 1;
}
