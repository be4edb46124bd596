/* The layout of the structures that programs and liblzy.so share, on 64-bit systems. No version with this SONAME may change
 * it (docs/reference/compatibility.md). A new field gets a new line. Compiles, or not. */
#include <lzy/lzy.h>

#define IS_AT(structure, field, offset, size) \
  (offsetof(structure, field) == (offset) && sizeof(((structure*)0)->field) == (size))
#define LAYOUT(structure, field, offset, size) \
  _Static_assert(sizeof(void*) != 8 || IS_AT(structure, field, offset, size), \
                 "the layout of " #structure " changed at " #field)

LAYOUT(lzy_options, size, 0, 8);
LAYOUT(lzy_options, parity, 8, 4);
LAYOUT(lzy_options, group, 12, 4);
LAYOUT(lzy_options, block_size, 16, 4);
LAYOUT(lzy_options, stripe, 24, 8);
LAYOUT(lzy_options, memory, 32, 8);
LAYOUT(lzy_options, threads, 40, 4);
LAYOUT(lzy_options, timeout, 44, 4);
LAYOUT(lzy_options, use_environment, 48, 4);
LAYOUT(lzy_options, from_disk, 52, 4);
LAYOUT(lzy_options, force, 56, 4);
LAYOUT(lzy_options, dry_run, 60, 4);
LAYOUT(lzy_options, salvage, 64, 4);
LAYOUT(lzy_options, devices, 72, 8);
LAYOUT(lzy_options, device_count, 80, 8);
LAYOUT(lzy_options, progress, 88, 8);
LAYOUT(lzy_options, progress_data, 96, 8);
LAYOUT(lzy_options, replica, 104, 8);
LAYOUT(lzy_options, no_objects, 112, 4);
LAYOUT(lzy_options, lost_here, 116, 4);
LAYOUT(lzy_options, lost_nodes, 120, 8);
LAYOUT(lzy_options, exchange, 128, 8);
LAYOUT(lzy_copy_options, size, 0, 8);
LAYOUT(lzy_copy_options, verify, 8, 4);
LAYOUT(lzy_copy_options, no_protect, 12, 4);
LAYOUT(lzy_copy_options, resume, 16, 4);
LAYOUT(lzy_copy_options, salvage, 20, 4);
LAYOUT(lzy_copy_options, limit, 24, 8);
LAYOUT(lzy_copy_options, progress, 32, 8);
LAYOUT(lzy_copy_options, progress_data, 40, 8);
LAYOUT(lzy_copied, size, 0, 8);
LAYOUT(lzy_copied, files, 8, 8);
LAYOUT(lzy_copied, already, 16, 8);
LAYOUT(lzy_copied, failed, 24, 8);
LAYOUT(lzy_copied, bytes, 32, 8);
LAYOUT(lzy_copied, healed_bytes, 40, 8);
LAYOUT(lzy_copied, sent_again_bytes, 48, 8);
LAYOUT(lzy_copied, lost_bytes, 56, 8);
LAYOUT(lzy_dataset, path, 0, 8);
LAYOUT(lzy_dataset, kind, 8, 4);
LAYOUT(lzy_dataset, state, 12, 4);
LAYOUT(lzy_dataset, code, 16, 4);
LAYOUT(lzy_dataset, message, 24, 8);
LAYOUT(lzy_dataset, root, 32, 8);
LAYOUT(lzy_dataset, devices, 40, 4);
LAYOUT(lzy_dataset, parity, 44, 4);
LAYOUT(lzy_dataset, groups, 48, 4);
LAYOUT(lzy_dataset, group_size, 52, 4);
LAYOUT(lzy_dataset, block_size, 56, 4);
LAYOUT(lzy_dataset, unit, 64, 8);
LAYOUT(lzy_dataset, bytes, 72, 8);
LAYOUT(lzy_dataset, sidecar_bytes, 80, 8);
LAYOUT(lzy_dataset, generation, 88, 8);
LAYOUT(lzy_dataset, commit_time_ns, 96, 8);
LAYOUT(lzy_dataset, committed, 104, 4);
LAYOUT(lzy_dataset, bytes_read, 112, 8);
LAYOUT(lzy_dataset, bytes_encoded, 120, 8);
LAYOUT(lzy_dataset, damage_count, 128, 8);
LAYOUT(lzy_dataset, warning_count, 136, 8);
LAYOUT(lzy_dataset, seconds_read, 144, 8);
LAYOUT(lzy_dataset, seconds_hash, 152, 8);
LAYOUT(lzy_dataset, seconds_encode, 160, 8);
LAYOUT(lzy_dataset, seconds_exchange, 168, 8);
LAYOUT(lzy_dataset, seconds_write, 176, 8);
LAYOUT(lzy_dataset, seconds_sync, 184, 8);
LAYOUT(lzy_dataset, seconds_total, 192, 8);
LAYOUT(lzy_dataset, not_visible_count, 200, 8);
LAYOUT(lzy_not_visible, device, 0, 4);
LAYOUT(lzy_not_visible, path, 8, 8);
LAYOUT(lzy_not_visible, node, 16, 8);
LAYOUT(lzy_damage, path, 0, 8);
LAYOUT(lzy_damage, device, 8, 4);
LAYOUT(lzy_damage, part, 12, 4);
LAYOUT(lzy_damage, offset, 16, 8);
LAYOUT(lzy_damage, length, 24, 8);
LAYOUT(lzy_damage, cause, 32, 4);
LAYOUT(lzy_damage, transient, 36, 4);
LAYOUT(lzy_damage, repaired, 40, 4);
LAYOUT(lzy_damage, beyond_repair, 44, 4);
LAYOUT(lzy_damage, objects, 48, 8);
LAYOUT(lzy_damage, object_count, 56, 8);
LAYOUT(lzy_damage, object_texts, 64, 8);
LAYOUT(lzy_damage, objects_left_off, 72, 8);

/* The program makes these, and tells their sizes. The other ones may grow at the end, too. */
_Static_assert(sizeof(void*) != 8 || (sizeof(lzy_options) >= 120 && sizeof(lzy_copy_options) >= 48 && sizeof(lzy_copied) >= 64),
               "what a program makes may only grow");
