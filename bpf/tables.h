/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The tables of a host's datapath (datapath/host/tables.h). The text of maps.h is part of the version of the maps and
 * names this file: agents of both versions adopt each other's maps.
 */
#include "host/tables.h"
